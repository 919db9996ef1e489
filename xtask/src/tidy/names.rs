//! Names of files and modules say what is inside.

use super::{
    File, Finding, Tree,
    tokens::{find, tokens},
};

/// Names that could stand over anything.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "util", "utilities", "utils"];

const ADVICE: &str = "name it after what is inside, or move that to where it is used";

/// No file, folder or module has a name that could stand over anything.
pub(super) fn say_something(file: &File, _tree: &Tree) -> Vec<Finding> {
    let stem = |part: &str| part.split('.').next().unwrap_or(part).to_lowercase();
    let mut findings = Vec::new();
    for name in file.path.split('/').map(stem).filter(|name| EMPTY_NAMES.contains(&name.as_str())) {
        findings.push(Finding::new(file, 1, format!("`{name}` says nothing: {ADVICE}")));
    }
    let tokens = tokens(file).unwrap_or_default();
    for name in EMPTY_NAMES {
        let lines = find(&tokens, &["mod", name]).into_iter();
        findings.extend(
            lines.map(|line| Finding::new(file, line, format!("`mod {name}` says nothing: {ADVICE}"))),
        );
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
    fn empty_names_are_found() {
        for path in ["src/utils.rs", "tests/common/mod.rs", "Helpers.md", "misc"] {
            assert_eq!(lines_found(say_something, path, ""), [1], "{path}");
        }
        assert_eq!(lines_found(say_something, "a.rs", "\npub mod util;\nmod misc {}\n"), [3, 2]);
    }

    #[test]
    fn names_that_say_something_pass() {
        for path in ["src/utility_bill.rs", "uncommon/a.rs", "src/a.rs"] {
            assert_eq!(
                lines_found(say_something, path, "//! mod utils\nfn common() {}\n"),
                NOTHING,
                "{path}"
            );
        }
    }
}
