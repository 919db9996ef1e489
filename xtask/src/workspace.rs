//! [`Workspace`]: where the repository is, and what cargo says about its members.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::task::Task;

/// The workspace that this program belongs to.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
}

/// Something that cargo builds: an example, a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// The package it belongs to.
    pub(crate) package: String,
    /// Its own name.
    pub(crate) name: String,
}

/// What cargo says about the members.
#[derive(Debug)]
pub(crate) struct Metadata(Value);

impl Workspace {
    /// The workspace this program was built from.
    pub(crate) fn here() -> Self {
        // Cargo sets the variable for what it runs, so a repository that was moved after the build is found as well.
        let own =
            std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
        let root = Path::new(&own).parent().expect("xtask is a folder in the root of the workspace");
        Self { root: root.to_owned() }
    }

    /// Its root folder.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A cargo command in its root.
    pub(crate) fn cargo(&self, args: &[&str]) -> Task {
        Task::cargo(&self.root, args)
    }

    /// What cargo says about the members.
    pub(crate) fn metadata(&self) -> Result<Metadata> {
        let task = self.cargo(&["metadata", "--no-deps", "--locked", "--format-version", "1"]);
        let (ended, output) = task.capture()?;
        if !ended.well() {
            bail!("`{task}` failed ({ended}):\n{output}");
        }
        // Warnings of cargo's stand on lines of their own; the description is one line.
        let json =
            output.lines().find(|line| line.starts_with('{')).context("cargo metadata printed no JSON")?;
        Ok(Metadata(serde_json::from_str(json).context("cargo metadata printed bad JSON")?))
    }
}

impl Metadata {
    /// Where cargo puts what it builds.
    pub(crate) fn target_folder(&self) -> Result<PathBuf> {
        text(&self.0, "target_directory").map(PathBuf::from)
    }

    /// The targets of one kind (`example`, `bin`) of all members.
    pub(crate) fn targets(&self, kind: &str) -> Result<Vec<Target>> {
        let mut found: Vec<Target> = Vec::new();
        for package in list(&self.0, "packages")? {
            for target in list(package, "targets")? {
                if !list(target, "kind")?.iter().any(|each| each == kind) {
                    continue;
                }
                let (package, name) = (text(package, "name")?, text(target, "name")?);
                if let Some(other) = found.iter().find(|other| other.name == name) {
                    bail!(
                        "{} and {package} both have the {kind} {name}: cargo builds one of them, name it apart",
                        other.package
                    );
                }
                found.push(Target { package, name });
            }
        }
        Ok(found)
    }
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value
        .get(field)
        .and_then(Value::as_array)
        .with_context(|| format!("cargo metadata has no list `{field}`"))
}

fn text(value: &Value, field: &str) -> Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("cargo metadata has no text `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_by_kind() {
        let metadata = Metadata(serde_json::json!({ "packages": [
            { "name": "a", "targets": [{ "name": "a", "kind": ["lib"] }, { "name": "tour", "kind": ["example"] }]},
            { "name": "b", "targets": [{ "name": "run", "kind": ["bin"] }, { "name": "walk", "kind": ["example"] }] },
        ]}));
        let tour = Target { package: "a".into(), name: "tour".into() };
        let walk = Target { package: "b".into(), name: "walk".into() };
        assert_eq!(metadata.targets("example").unwrap(), [tour, walk]);
        assert_eq!(metadata.targets("bin").unwrap().len(), 1);
    }

    #[test]
    fn two_of_one_name_are_an_error() {
        let target = serde_json::json!([{ "name": "tour", "kind": ["example"] }]);
        let packages =
            serde_json::json!([{ "name": "a", "targets": target }, { "name": "b", "targets": target }]);
        let error = Metadata(serde_json::json!({ "packages": packages })).targets("example").unwrap_err();
        assert!(error.to_string().contains("a and b both have the example tour"), "{error}");
    }

    #[test]
    fn metadata_of_another_shape_is_an_error() {
        let metadata = Metadata(serde_json::json!({ "packages": [{ "name": "a" }] }));
        let error = metadata.targets("bin").unwrap_err();
        assert!(error.to_string().contains("`targets`"), "{error}");
    }

    #[test]
    fn this_workspace_has_this_program() {
        let programs = Workspace::here().metadata().unwrap().targets("bin").unwrap();
        assert!(programs.iter().any(|program| program.name == "xtask"), "{programs:?}");
    }
}
