//! Lists come in pages, each of which says where the next begins.

use serde_json::Value;

use crate::{
    daemon::{Daemon, store_in},
    keeper::Keeper,
};

/// What a list has, read one row at a time; `name` is the member that tells rows apart.
fn rows(daemon: &Daemon, path: &str, name: &str) -> Vec<String> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    loop {
        let answer = daemon.ask("GET", &format!("{path}?limit=1{after}"), "", "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let items = answer.body["items"].as_array().unwrap();
        assert!(items.len() <= 1, "{path}: {}", answer.text);
        rows.extend(items.iter().map(|item| item[name].to_string()));
        match &answer.body["next"] {
            Value::String(next) => after = format!("&after={}", escaped(next)),
            _ => return rows,
        }
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[test]
fn one_by_one_is_as_much_as_all_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(folder.path(), &[]);
    let mut keeper = Keeper::join(&store_in(folder.path()));
    keeper.refuse(&[700, 800, 900]);
    keeper.furnish();
    for (path, name, least) in [
        ("/v1/members", "node", 2),
        ("/v1/elections", "name", 4),
        ("/v1/servers", "kind", 2),
        ("/v1/servers/picky", "id", 5),
        ("/v1/servers/picky/fussy/dead-letters", "number", 3),
        ("/v1/registries", "name", 1),
        ("/v1/registries/users/names", "name", 5),
    ] {
        let all = daemon.ask("GET", path, "", "");
        let all: Vec<String> =
            all.body["items"].as_array().unwrap().iter().map(|item| item[name].to_string()).collect();
        assert!(all.len() >= least, "{path}: {all:?}");
        assert_eq!(rows(&daemon, path, name), all, "{path}");
    }
}
