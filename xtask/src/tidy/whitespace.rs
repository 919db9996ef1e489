//! White space that nobody sees, and that would differ for no reason. `cargo xtask fix` repairs all but tabs.

use super::{File, Finding, Tree};

/// No white space ends a line, one newline ends the file, and no tab is in a Rust file.
pub(super) fn clean(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, number) in file.text.split('\n').zip(1..) {
        if line.ends_with(char::is_whitespace) {
            findings.push(Finding::new(
                file,
                number,
                "white space at the end of the line: run `cargo xtask fix`",
            ));
        }
        if line.contains('\t') && file.has_extension("rs") {
            findings.push(Finding::new(file, number, "a tab: indent with spaces, write `\\t` in texts"));
        }
    }
    let ends_well = file.text.ends_with('\n') && !file.text.ends_with("\n\n") && file.text != "\n";
    if !ends_well && !file.text.is_empty() {
        let last = file.lines().count().max(1);
        findings.push(Finding::new(file, last, "the file must end with one newline: run `cargo xtask fix`"));
    }
    findings
}

/// The text of a file with its white space repaired, if it needs to be.
pub(crate) fn repaired(file: &File) -> Option<String> {
    let lines: Vec<&str> = file.text.split('\n').map(str::trim_end).collect();
    let body = lines.join("\n");
    let body = body.trim_end_matches('\n');
    let text = if body.is_empty() { String::new() } else { format!("{body}\n") };
    (text != file.text).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn white_space_at_ends_is_found_and_repaired() {
        for (text, lines, good) in [
            ("a \nb\n", vec![1], "a\nb\n"),
            ("a\n\t\nb\n", vec![2], "a\n\nb\n"),
            ("a\r\nb\r\n", vec![1, 2], "a\nb\n"),
            ("a\nb", vec![2], "a\nb\n"),
            ("a\n\n\n", vec![3], "a\n"),
            ("\n", vec![1], ""),
        ] {
            assert_eq!(lines_found(clean, "a.md", text), lines, "{text:?}");
            let file = File { path: "a.md".to_owned(), text: text.to_owned() };
            assert_eq!(repaired(&file).as_deref(), Some(good), "{text:?}");
        }
    }

    #[test]
    fn clean_files_pass() {
        for text in ["", "a\n", "  a\n\n\tb\n"] {
            assert_eq!(lines_found(clean, "Makefile", text), NOTHING, "{text:?}");
            assert_eq!(repaired(&File { path: "a".to_owned(), text: text.to_owned() }), None, "{text:?}");
        }
    }

    #[test]
    fn tabs_are_found_in_rust() {
        assert_eq!(lines_found(clean, "a.rs", "fn a() {\n\tb();\n}\n"), [2]);
    }
}
