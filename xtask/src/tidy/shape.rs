//! The shape of a Rust file: it begins with what it is about, and it is not too long to be read.

use super::{File, Finding, Tree};

/// What still can be read in one go. Most files have half of it.
const MOST_LINES: usize = 600;

/// A Rust file begins with `//!`.
pub(super) fn begins_with_doc(file: &File, _tree: &Tree) -> Vec<Finding> {
    if !file.has_extension("rs") || file.text.starts_with("//!") {
        return Vec::new();
    }
    vec![Finding::new(file, 1, "begin it with `//!` and what it is about")]
}

/// A Rust file is not too long.
pub(super) fn is_short(file: &File, _tree: &Tree) -> Vec<Finding> {
    let lines = file.lines().count();
    if !file.has_extension("rs") || lines <= MOST_LINES {
        return Vec::new();
    }
    vec![Finding::new(file, MOST_LINES + 1, format!("split it: {lines} lines are more than {MOST_LINES}"))]
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn a_file_without_doc_is_found() {
        for text in ["", "\n//! Late.\n", "// Not a doc.\n", "use std::fmt;\n", "#![allow(x)]\n//! Late.\n"] {
            assert_eq!(lines_found(begins_with_doc, "tests/a.rs", text), [1], "{text:?}");
        }
    }

    #[test]
    fn a_file_with_doc_passes() {
        assert_eq!(lines_found(begins_with_doc, "a.rs", "//! Good.\n"), NOTHING);
        assert_eq!(lines_found(begins_with_doc, "a.toml", "[package]\n"), NOTHING);
    }

    #[test]
    fn a_file_that_is_too_long_is_found() {
        assert_eq!(lines_found(is_short, "a.rs", &"\n".repeat(MOST_LINES + 1)), [MOST_LINES + 1]);
        assert_eq!(lines_found(is_short, "a.rs", &"\n".repeat(MOST_LINES)), NOTHING);
        assert_eq!(lines_found(is_short, "a.md", &"\n".repeat(MOST_LINES + 1)), NOTHING);
    }
}
