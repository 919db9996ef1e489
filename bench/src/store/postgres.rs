//! The PostgreSQL store beside pgbench: its update of one row, and its select of one row, both prepared.

use std::{path::Path, process::Command};

use crate::server::{self, CROWD, Limit};

const SECONDS: &str = "3";

/// A million rows.
const SCALE: &str = "10";

const UPDATE: &str = "\\set aid random(1, 100000 * :scale)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";

pub(crate) fn measure(url: &str) {
    // pgbench does not know our options.
    let database = url.split('?').next().unwrap();
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), UPDATE).unwrap();
    pgbench(&["-i", "-q", "-s", SCALE, database]);
    let limit = Limit {
        name: "pgbench",
        commits: Box::new(|| crowd(&["-f", text(script.path())], database)),
        reads: Box::new(|| crowd(&["-S"], database)),
    };
    server::measure(&server::runtime(), url, &limit);
    pgbench(&["-i", "-I", "d", database]);
}

/// Transactions a second of as many clients as ours.
fn crowd(what: &[&str], database: &str) -> f64 {
    let crowd = CROWD.to_string();
    let how = ["-n", "-M", "prepared", "-s", SCALE, "-c", &crowd, "-j", "2", "-T", SECONDS];
    let told = pgbench(&[&how, what, &[database]].concat());
    let line = told.lines().find_map(|line| line.strip_prefix("tps = ")).unwrap();
    line.split(' ').next().unwrap().parse().unwrap()
}

fn pgbench(args: &[&str]) -> String {
    let output = Command::new("pgbench").args(args).output().expect("pgbench is in the path");
    assert!(output.status.success(), "pgbench {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
