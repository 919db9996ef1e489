//! What helps while writing and has no place in what is written: unfinished code, switched-off tests, notes to oneself.

use super::{
    File, Finding, Tree,
    tokens::{find, tokens},
    words,
};

/// Tokens that mean "not yet", each with what to do instead.
const UNFINISHED: &[(&[&str], &str)] = &[
    (&["todo", "!", "("], "finish it, or return an error that says what is not supported"),
    (&["unimplemented", "!", "("], "finish it, or return an error that says what is not supported"),
    (&["dbg", "!", "("], "remove it, or trace it"),
    (&["#", "[", "ignore"], "make the test pass or remove it: nothing is skipped here"),
];

/// Words in comments that mean "not yet". In two parts, so as not to be found here.
const MARKERS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// No code that is not finished, no test that is switched off.
pub(super) fn unfinished(file: &File, _tree: &Tree) -> Vec<Finding> {
    let tokens = tokens(file).unwrap_or_default();
    let mut findings = Vec::new();
    for (pattern, advice) in UNFINISHED {
        let lines = find(&tokens, pattern).into_iter();
        findings
            .extend(lines.map(|line| Finding::new(file, line, format!("`{}`: {advice}", pattern.concat()))));
    }
    findings
}

/// No notes to oneself, in any file.
pub(super) fn markers(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for marker in MARKERS {
            if words::contains(line, marker) {
                let advice = format!("`{marker}`: do it now, or open an issue and remove the note");
                findings.push(Finding::new(file, number, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn unfinished_code_is_found() {
        let text = "fn f() {\n  todo!();\n  std::unimplemented!(\"x\");\n  dbg!(1);\n}\n#[test]\n#[ignore = \"slow\"]\nfn t() {}\n";
        assert_eq!(lines_found(unfinished, "a.rs", text), [2, 3, 4, 7]);
    }

    #[test]
    fn finished_code_passes() {
        let text = "//! `todo!()`\nfn todo(ignore: bool) { f(\"dbg!(x)\"); }\n";
        assert_eq!(lines_found(unfinished, "a.rs", text), NOTHING);
        assert_eq!(lines_found(unfinished, "a.md", "todo!()\n"), NOTHING);
    }

    #[test]
    fn markers_are_found_in_all_files() {
        for marker in MARKERS {
            let text = format!("fine\n// {marker}: later\n# {marker}(me)\n");
            assert_eq!(lines_found(markers, "a.toml", &text), [2, 3], "{marker}");
        }
    }

    #[test]
    fn longer_words_pass() {
        let text =
            MARKERS.iter().map(|marker| format!("{marker}S X{marker} a_{marker}\n")).collect::<String>();
        assert_eq!(lines_found(markers, "a.md", &text), NOTHING);
    }
}
