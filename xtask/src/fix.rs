//! `cargo xtask fix`: repairs what a machine can repair. Lints first, since their repairs need to be formatted, white space last.

use anyhow::{Result, bail};

use crate::{
    tidy::{Tree, repaired},
    workspace::Workspace,
};

const CLIPPY: &[&str] = &[
    "clippy",
    "--fix",
    "--allow-dirty",
    "--allow-staged",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--locked",
];

/// Repairs the working tree. All repairs are tried, even if one fails: code that does not compile can still be tidied.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut failed = Vec::new();
    for args in [CLIPPY, &["fmt", "--all"]] {
        let task = workspace.cargo(args);
        println!("{task}");
        if !task.stream(|line| println!("  {line}"))?.well() {
            failed.push(task.to_string());
        }
    }
    println!("white space");
    for file in Tree::load(workspace.root())?.files() {
        if let Some(text) = repaired(file) {
            println!("  {}", file.path);
            std::fs::write(workspace.root().join(&file.path), text)?;
        }
    }
    if !failed.is_empty() {
        bail!("could not repair everything; failed: {}", failed.join("; "));
    }
    Ok(())
}
