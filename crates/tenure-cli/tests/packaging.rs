//! What is handed to other programs is what they take: alerts and charts to Prometheus, units to systemd. And the units start what there is to start.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const UNITS: [&str; 2] = ["tenure.service", "tenure-run@.service"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program in a folder; what it says must be nothing but good.
fn passes(folder: &Path, words: &[&str]) -> String {
    let said = Command::new(words[0]).args(&words[1..]).current_dir(folder).output();
    let said = said.unwrap_or_else(|error| panic!("{}: {error}: cargo xtask test installs it", words[0]));
    let text = String::from_utf8_lossy(&said.stdout).into_owned() + &String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{words:?}: {text}");
    text
}

#[test]
fn alerts_are_rules_and_fire_when_they_should() {
    let folder = root().join("docs/operate");
    passes(&folder, &["promtool", "check", "rules", "alerts.yml"]);
    passes(&folder, &["promtool", "test", "rules", "alerts.test.yml"]);
}

/// All texts of members with this name.
fn texts(value: &Value, name: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get(name).and_then(Value::as_str).map(str::to_owned));
            members.values().for_each(|member| texts(member, name, found));
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, name, found)),
        _ => {}
    }
}

#[test]
fn charts_ask_what_prometheus_understands() {
    let text = fs::read_to_string(root().join("docs/operate/grafana.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let mut asked = Vec::new();
    texts(&dashboard, "expr", &mut asked);
    assert!(asked.len() > 30, "{asked:?}");
    let mut rules = "groups:\n- name: charts\n  rules:\n".to_owned();
    for (number, expr) in asked.iter().enumerate() {
        // What Grafana puts there.
        let expr = expr.replace("$__rate_interval", "1m").replace("$job", ".+");
        assert!(!expr.contains('$'), "{expr}");
        rules += &format!("  - record: chart_{number}\n    expr: {}\n", Value::String(expr));
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rules.yml"), rules).unwrap();
    passes(folder.path(), &["promtool", "check", "rules", "rules.yml"]);
}

fn unit(name: &str) -> String {
    fs::read_to_string(root().join("packaging/systemd").join(name)).unwrap()
}

#[test]
fn units_are_what_systemd_takes_and_well_locked_in() {
    let folder = tempfile::tempdir().unwrap();
    for (name, exposure) in UNITS.into_iter().zip(["20", "50"]) {
        let text = unit(name).replace("/usr/bin/tenure ", concat!(env!("CARGO_BIN_EXE_tenure"), " "));
        let name = name.replace('@', "@job");
        fs::write(folder.path().join(&name), text).unwrap();
        let name = format!("./{name}");
        let said = passes(folder.path(), &["systemd-analyze", "verify", "--man=no", &name]);
        assert_eq!(said, "", "{name}");
        let threshold = format!("--threshold={exposure}");
        passes(folder.path(), &["systemd-analyze", "security", "--offline=true", &threshold, &name]);
    }
}

/// Starts what a unit starts, as systemd would; tells it to stop when it has said this. Returns its code.
fn starts(name: &str, folder: &Path, words: &str) -> Option<i32> {
    let unit = unit(name);
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/tenure ")).unwrap();
    let line = line
        .replace("${CREDENTIALS_DIRECTORY}", folder.to_str().unwrap())
        .replace("%H", "host")
        .replace("%i", "job")
        .replace("$COMMAND", "/usr/bin/tail -n 1 -f words");
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(line.split_whitespace()).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped());
    for variable in ["TENURE_STORE", "TENURE_CLUSTER", "TENURE_CONFIG", "TENURE_TOKENS", "TENURE_LOG"] {
        command.env_remove(variable);
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(words)), "{name} never said {words:?}");
    kill(Pid::from_raw(child.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    // Nothing that it says may be in its way.
    lines.for_each(drop);
    child.wait().unwrap().code()
}

#[test]
fn units_start_and_stop_what_they_say() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let text = format!("store = \"sqlite:{}\"\n[serve]\nlisten = \"127.0.0.1:0\"\n", store.display());
    fs::write(folder.path().join("tenure.toml"), text).unwrap();
    fs::write(folder.path().join("words"), "it works\n").unwrap();
    assert_eq!(starts("tenure.service", folder.path(), "serving on http://127.0.0.1:"), Some(0));
    let code = starts("tenure-run@.service", folder.path(), "it works").unwrap();
    assert!(unit("tenure-run@.service").contains(&format!("\nSuccessExitStatus={code}\n")), "{code}");
}
