//! The program `tenure`, as users have it.

use std::{path::PathBuf, process::Command};

/// Where it is: beside this program, built here for release, as cargo builds only ours.
#[must_use]
pub fn tenure() -> PathBuf {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--quiet", "--package", "tenure-cli"]);
    assert!(cargo.status().unwrap().success(), "tenure can't be built");
    std::env::current_exe().unwrap().with_file_name("tenure")
}
