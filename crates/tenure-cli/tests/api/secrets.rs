//! Secrets are in no log, however much is logged.

use std::{fs::File, process::Stdio};

use tenure::store::Env;

use crate::daemon::{Daemon, secret_file};

#[test]
fn tokens_and_passwords_are_in_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let (good, wrong, password) = ("operator-secret-1", "mistaken-secret-2", "password-secret-3");
    let tokens = secret_file(folder.path(), "tokens", &format!("operate {good}\n"));
    // The server of all tests takes any password.
    let server = tenure_testbed::postgres().replacen("postgres@", &format!("postgres:{password}@"), 1);
    assert!(server.contains(password), "{server}");
    let store = format!("{server}?schema=secrets_{:016x}", Env::system().random_u64());
    let log = folder.path().join("log");
    let mut said = String::new();
    for format in ["text", "json"] {
        let options = ["--tokens", &tokens, "--log", "trace", "--log-format", format];
        let daemon = Daemon::start_on(&store, &options, Stdio::from(File::create(&log).unwrap()));
        for token in [good, wrong] {
            let lines = format!("Authorization: Bearer {token}\r\n");
            for (method, path) in [("GET", "/v1/status"), ("POST", "/v1/sessions"), ("GET", "/metrics")] {
                said += &daemon.ask(method, path, &lines, r#"{"name": "a"}"#).text;
            }
            let lines = format!("Authorization: Basic {token}\r\nCookie: {token}\r\n");
            said += &daemon.ask("GET", "/v1/status", &lines, "").text;
        }
        drop(daemon);
        let logged = std::fs::read_to_string(&log).unwrap();
        assert!(logged.contains("DEBUG") && logged.contains("/v1/status"), "everything is logged: {logged}");
        said += &logged;
    }
    for secret in [good, wrong, password] {
        assert!(!said.contains(secret), "{secret} is told");
    }
}
