//! Exceptions from lints have a reason, and there is none for unsafe code.

use super::{
    File, Finding, Tree,
    tokens::{Token, find, inside, tokens},
};

/// Each `allow` and each `expect` of a lint says why.
pub(super) fn reasons(file: &File, _tree: &Tree) -> Vec<Finding> {
    let tokens = match tokens(file) {
        Ok(tokens) => tokens,
        // Said once, here, for all the rules that look at tokens.
        Err((line, error)) => return vec![Finding::new(file, line, format!("this is not Rust: {error}"))],
    };
    let mut findings = Vec::new();
    for open in (0..tokens.len()).filter(|&at| opens_attribute(&tokens, at)) {
        let attribute = inside(&tokens, open);
        for (at, pair) in attribute.windows(2).enumerate() {
            let lint = matches!(pair[0].text.as_str(), "allow" | "expect") && pair[1].text == "(";
            if lint && find(inside(attribute, at + 1), &["reason", "="]).is_empty() {
                let advice = format!("give the reason: #[{}(..., reason = \"...\")]", pair[0].text);
                findings.push(Finding::new(file, pair[0].line, advice));
            }
        }
    }
    findings
}

/// The keyword that switches the compiler's checks off does not occur.
pub(super) fn safe(file: &File, _tree: &Tree) -> Vec<Finding> {
    let advice = "write it without: no crate here is made for it";
    let lines = find(&tokens(file).unwrap_or_default(), &["unsafe"]);
    lines.into_iter().map(|line| Finding::new(file, line, advice)).collect()
}

/// Whether the bracket of an attribute is at a position: `#[` or `#![`.
fn opens_attribute(tokens: &[Token], at: usize) -> bool {
    let before = |distance: usize| at.checked_sub(distance).map(|index| tokens[index].text.as_str());
    tokens[at].text == "[" && (before(1) == Some("#") || (before(1) == Some("!") && before(2) == Some("#")))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn an_exception_without_reason_is_found() {
        let text = "#![allow(dead_code)]\n#[expect(\n  a,\n  b)]\nfn f() {}\n#[cfg_attr(test, allow(c))]\nfn g() {}\n";
        assert_eq!(lines_found(reasons, "a.rs", text), [1, 2, 6]);
        assert_eq!(lines_found(reasons, "a.rs", "fn f( {\n").len(), 1);
    }

    #[test]
    fn an_exception_with_reason_passes() {
        let text = "//! #[allow(x)]\n#[allow(a, reason = \"b\")]\nfn f() { g().expect(\"h\"); }\n\
                    #[cfg_attr(test, expect(c, reason = \"d\"))]\nfn allow(x: [u8; 1]) {}\n";
        assert_eq!(lines_found(reasons, "a.rs", text), NOTHING);
        assert_eq!(lines_found(reasons, "a.md", "#[allow(x)]\n"), NOTHING);
    }

    #[test]
    fn unsafe_code_is_found() {
        assert_eq!(lines_found(safe, "a.rs", "fn f() {\n    unsafe { g() }\n}\nunsafe fn g() {}\n"), [2, 4]);
    }

    #[test]
    fn talking_about_unsafe_code_passes() {
        let text = "//! unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
        assert_eq!(lines_found(safe, "a.rs", text), NOTHING);
    }
}
