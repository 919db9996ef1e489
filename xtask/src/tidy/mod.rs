//! Rules about the text of the repository, for what neither the compiler nor clippy looks at.
//!
//! A rule is a pure function from a file (and the list of all files) to findings. One macro makes of each rule an entry of
//! [`RULES`], which the gate goes through, and a test of its own, so that `cargo test` checks the repository as well. Beside each rule stand
//! tests that feed it what it must catch, and what it must let pass.

mod attributes;
mod leftovers;
mod links;
mod manifests;
mod metrics;
mod names;
mod places;
mod shape;
mod tokens;
mod tree;
mod whitespace;
mod words;

use std::fmt;

use anyhow::Result;

pub(crate) use self::{
    tree::{File, Tree},
    whitespace::repaired,
};
use crate::workspace::Workspace;

/// A rule, by name.
pub(crate) struct Rule {
    name: &'static str,
    check: fn(&File, &Tree) -> Vec<Finding>,
}

/// A place where a rule is broken, and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    rule: &'static str,
    path: String,
    line: usize,
    advice: String,
}

macro_rules! rules {
    ($($name:ident: $check:path,)*) => {
        /// All rules.
        pub(crate) const RULES: &[Rule] = &[$(Rule { name: stringify!($name), check: $check }),*];

        #[cfg(test)]
        mod repository {
            $(
                #[test]
                fn $name() {
                    super::assert_kept(stringify!($name));
                }
            )*
        }
    };
}

rules! {
    files_begin_with_a_doc: shape::begins_with_doc,
    files_are_short: shape::is_short,
    names_say_something: names::say_something,
    nothing_is_left_unfinished: leftovers::unfinished,
    no_marker_is_left: leftovers::markers,
    no_machine_is_named: places::machine_paths,
    no_registry_is_named: places::registries,
    white_space_is_clean: whitespace::clean,
    links_resolve: links::resolve,
    members_share_lints_and_license: manifests::inherits,
    dependencies_come_from_the_workspace: manifests::workspace_dependencies,
    exceptions_have_reasons: attributes::reasons,
    nothing_is_unsafe: attributes::safe,
    words_are_well_chosen: words::well_chosen,
    metrics_are_listed: metrics::listed,
    metrics_that_are_asked_for_exist: metrics::answered,
}

/// Goes through all rules and all files that git knows or would add.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let tree = Tree::load(workspace.root())?;
    Ok(RULES.iter().flat_map(|rule| rule.apply(&tree)).collect())
}

impl Rule {
    fn apply(&self, tree: &Tree) -> Vec<Finding> {
        let findings = tree.files().iter().flat_map(|file| (self.check)(file, tree));
        findings.map(|finding| Finding { rule: self.name, ..finding }).collect()
    }
}

impl Finding {
    /// A finding in a line, counted from 1. The rule's name is added by whoever applies it.
    fn new(file: &File, line: usize, advice: impl Into<String>) -> Self {
        Self { rule: "", path: file.path.clone(), line, advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, path, line, advice } = self;
        write!(f, "{path}:{line}: {rule}: {advice}")
    }
}

#[cfg(test)]
fn assert_kept(name: &str) {
    let tree = Tree::load(Workspace::here().root()).unwrap();
    let rule = RULES.iter().find(|rule| rule.name == name).unwrap();
    let findings: Vec<String> = rule.apply(&tree).iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
}

/// The lines in which a rule finds something, where it finds nothing.
#[cfg(test)]
const NOTHING: [usize; 0] = [];

/// The lines in which a rule finds something, in a repository of that one file.
#[cfg(test)]
fn lines_found(check: fn(&File, &Tree) -> Vec<Finding>, path: &str, text: &str) -> Vec<usize> {
    let tree = Tree::of(&[(path, text)]);
    check(&tree.files()[0], &tree).iter().map(|finding| finding.line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_and_rule_and_what_to_do() {
        let tree = Tree::of(&[("src/a.rs", "fn main() {}\n")]);
        let findings: Vec<String> =
            RULES.iter().flat_map(|rule| rule.apply(&tree)).map(|each| each.to_string()).collect();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("src/a.rs:1: files_begin_with_a_doc: begin it with"), "{findings:?}");
    }
}
