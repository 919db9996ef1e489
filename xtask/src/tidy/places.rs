//! Nothing in the repository depends on, or tells about, the machine it was written on.

use super::{File, Finding, Tree};

/// Where things lie on somebody's machine. In two parts, so as not to be found here.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/Us", "ers/"),
    concat!("/tm", "p/"),
];

/// Where packages come from: which one it is, everyone's own settings say. In two parts, so as not to be found here.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("npmjs", "."),
    concat!("pypi", ".org"),
    concat!("docker", ".io"),
    concat!("ghcr", ".io"),
    concat!("quay", ".io"),
    concat!("deb.debian", ".org"),
    concat!("artifact", "ory"),
    concat!("jfr", "og."),
];

/// No absolute path of somebody's machine.
pub(super) fn machine_paths(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for path in MACHINE_PATHS.iter().filter(|path| names_place(line, path)) {
            let advice = format!(
                "`{path}...` exists on one machine only: take it from the environment, or use a temporary folder"
            );
            findings.push(Finding::new(file, number, advice));
        }
    }
    findings
}

/// No host of a package registry, but in the lock file, where cargo writes it.
pub(super) fn registries(file: &File, _tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines().filter(|_| file.name() != "Cargo.lock") {
        for host in REGISTRIES.iter().filter(|host| line.to_lowercase().contains(*host)) {
            let advice = format!("`{host}` is a registry: leave it to the settings of whoever builds");
            findings.push(Finding::new(file, number, advice));
        }
    }
    findings
}

/// Whether a line names a place below a folder, by an absolute path: a longer path may well contain the same letters.
fn names_place(line: &str, folder: &str) -> bool {
    let inside_path = |c: char| c.is_alphanumeric() || "_-.})>]*$~".contains(c);
    line.match_indices(folder).any(|(at, _)| {
        !line[..at].ends_with(inside_path)
            && line[at + folder.len()..].starts_with(|c: char| c.is_alphanumeric() || "_.<{$".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::{NOTHING, lines_found},
        *,
    };

    #[test]
    fn machine_paths_are_found() {
        for path in MACHINE_PATHS {
            let text = format!("fine\nsee {path}me\n\"sqlite://{path}a.db\"\n`{path}.cache`\n");
            assert_eq!(lines_found(machine_paths, "a.md", &text), [2, 3, 4], "{path}");
        }
    }

    #[test]
    fn other_paths_pass() {
        for path in MACHINE_PATHS {
            let text = format!(
                "src{path}a {{dir}}{path}a ..{path}a the folder {path} itself\n#!/usr/bin/env bash\n"
            );
            assert_eq!(lines_found(machine_paths, "a.md", &text), NOTHING, "{path}");
        }
    }

    #[test]
    fn registries_are_found_but_in_the_lock_file() {
        for host in REGISTRIES {
            let text = format!("fine\nhttps://{host}/x\n");
            assert_eq!(lines_found(registries, "README.md", &text), [2], "{host}");
            assert_eq!(lines_found(registries, "Cargo.lock", &text), NOTHING, "{host}");
        }
    }
}
