//! What all members share is said once, in the root's manifest. Manifests here are plain: one key a line, tables by their header.

use super::{File, Finding, Tree};

/// What each member inherits: the table, the key, and how to write it.
const INHERITED: &[(&str, &str, &str)] = &[
    ("lints", "workspace", "add `[lints]` with `workspace = true`"),
    ("package", "license.workspace", "add `license.workspace = true` to `[package]`"),
];

/// Each member takes its lints and its license from the workspace.
pub(super) fn inherits(file: &File, _tree: &Tree) -> Vec<Finding> {
    let entries = entries(file);
    if !entries.iter().any(|entry| entry.table == "package") {
        return Vec::new();
    }
    let missing = INHERITED.iter().filter(|(table, key, _)| {
        !entries.iter().any(|entry| entry.table == *table && entry.key == *key && entry.value == "true")
    });
    missing.map(|(_, _, advice)| Finding::new(file, 1, *advice)).collect()
}

/// Each member takes its dependencies from the workspace, so that there is one version of each. It may depend on itself, for its tests.
pub(super) fn workspace_dependencies(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for entry in entries(file) {
        let Entry { line, table, key, value } = entry;
        if table.starts_with("workspace") {
            continue;
        }
        if table.contains("dependencies.") {
            findings.push(Finding::new(file, line, format!("write `[{table}]` as one line of its parent")));
            continue;
        }
        let inherited = key.ends_with(".workspace") && value == "true" || value.contains("workspace = true");
        let itself = value.contains("path = \".\"");
        if table.ends_with("dependencies") && !inherited && !itself {
            let advice = format!(
                "move the version of `{key}` to the root's `[workspace.dependencies]`, write `{key}.workspace = true`"
            );
            findings.push(Finding::new(file, line, advice));
        }
    }
    findings
}

/// A key with its value.
struct Entry<'a> {
    line: usize,
    table: &'a str,
    key: &'a str,
    value: &'a str,
}

/// The entries of a manifest; none of other files.
fn entries(file: &File) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    let mut table = "";
    for (line, text) in file.lines().filter(|_| file.name() == "Cargo.toml") {
        let text = text.trim();
        if text.starts_with('[') && text.ends_with(']') {
            table = text.trim_matches(['[', ']']);
        } else if let Some((key, value)) = text.split_once('=').filter(|_| !text.starts_with(['#', '"'])) {
            entries.push(Entry { line, table, key: key.trim(), value: value.trim() });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    const GOOD: &str = "[package]\nname = \"a\"\nlicense.workspace = true\n\n\
                        [dependencies]\nbytes.workspace = true\ntokio = { workspace = true, features = [\n  \"rt\",\n] }\n\n\
                        [dev-dependencies]\na = { path = \".\", features = [\"x\"] }\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_member_that_inherits_passes() {
        assert_eq!(lines_found(inherits, "a/Cargo.toml", GOOD), NOTHING);
        assert_eq!(lines_found(workspace_dependencies, "a/Cargo.toml", GOOD), NOTHING);
    }

    #[test]
    fn a_member_with_own_lints_or_license_is_found() {
        for (good, bad) in [
            ("[lints]\nworkspace = true\n", ""),
            ("[lints]\nworkspace = true\n", "[lints.rust]\nunsafe_code = \"allow\"\n"),
            ("license.workspace = true", "license = \"MIT\""),
            ("license.workspace = true", ""),
        ] {
            assert_eq!(lines_found(inherits, "a/Cargo.toml", &GOOD.replace(good, bad)), [1], "{bad:?}");
        }
    }

    #[test]
    fn a_dependency_with_its_own_version_is_found() {
        for (bad, line) in [
            ("[dependencies]\nbytes = \"1\"\n", 2),
            ("[build-dependencies]\n\ncc = { version = \"1\" }\n", 3),
            ("[target.'cfg(unix)'.dependencies]\nnix = { version = \"1\", default-features = false }\n", 2),
            ("[dependencies.bytes]\nversion = \"1\"\n", 2),
            ("[dev-dependencies]\nb = { path = \"../b\" }\n", 2),
        ] {
            assert_eq!(lines_found(workspace_dependencies, "a/Cargo.toml", bad), [line], "{bad:?}");
        }
    }

    #[test]
    fn the_root_is_no_member() {
        let root = "[workspace]\nmembers = [\"a\"]\n\n[workspace.dependencies]\nbytes = \"1\"\n";
        assert_eq!(lines_found(inherits, "Cargo.toml", root), NOTHING);
        assert_eq!(lines_found(workspace_dependencies, "Cargo.toml", root), NOTHING);
    }
}
