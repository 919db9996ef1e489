//! pgbench: its update of one row, and its select of one row, both prepared.

use std::process::Command;

const SECONDS: &str = "3";

const UPDATE: &str = "\\set aid random(1, 100000 * :scale)\nUPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";

/// pgbench with tables of its own, which go with it.
#[derive(Debug)]
pub struct PgBench {
    database: String,
    scale: String,
    script: tempfile::NamedTempFile,
}

impl PgBench {
    /// Makes the tables: 100,000 rows for each unit of `scale`.
    #[must_use]
    pub fn prepare(url: &str, scale: u64) -> Self {
        // pgbench does not know our options.
        let (database, scale) = (url.split('?').next().unwrap().to_owned(), scale.to_string());
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), UPDATE).unwrap();
        pgbench(&["-i", "-q", "-s", &scale, &database]);
        Self { database, scale, script }
    }

    /// Updates a second of so many clients.
    #[must_use]
    pub fn commits(&self, clients: u64) -> f64 {
        self.crowd(clients, &["-f", self.script.path().to_str().unwrap()])
    }

    /// Selects a second of so many clients.
    #[must_use]
    pub fn reads(&self, clients: u64) -> f64 {
        self.crowd(clients, &["-S"])
    }

    fn crowd(&self, clients: u64, what: &[&str]) -> f64 {
        let (crowd, threads) = (clients.to_string(), clients.min(2).to_string());
        let how = ["-n", "-M", "prepared", "-s", &self.scale, "-c", &crowd, "-j", &threads, "-T", SECONDS];
        let told = pgbench(&[&how, what, &[&self.database]].concat());
        let line = told.lines().find_map(|line| line.strip_prefix("tps = ")).unwrap();
        line.split(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for PgBench {
    fn drop(&mut self) {
        pgbench(&["-i", "-I", "d", &self.database]);
    }
}

fn pgbench(args: &[&str]) -> String {
    let output = Command::new("pgbench").args(args).output().expect("pgbench is in the path");
    assert!(output.status.success(), "pgbench {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
