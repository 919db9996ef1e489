//! `cargo xtask bench NAME`: runs one comparison, built for release. Each is a program of the crate `tenure-bench`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const PACKAGE: &str = "tenure-bench";

/// Runs one comparison with its arguments, on our terminal, and returns its exit code.
pub(crate) fn run(workspace: &Workspace, name: &str, args: &[&str]) -> Result<ExitCode> {
    let programs = workspace.metadata()?.targets("bin")?;
    let known: Vec<&str> = programs
        .iter()
        .filter(|program| program.package == PACKAGE)
        .map(|program| program.name.as_str())
        .collect();
    if !known.contains(&name) {
        bail!("there is no comparison `{name}`. There are: {}", known.join(", "));
    }
    let mut all = vec!["run", "--release", "--locked", "--package", PACKAGE, "--bin", name, "--"];
    all.extend(args);
    workspace.cargo(&all).attached()
}
