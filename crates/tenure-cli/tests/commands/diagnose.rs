//! `tenure doctor` and `tenure schema print`.

use serde_json::{Value, json};
use tenure::store::{Range, Store as _, StoreExt as _};

use crate::{keeper::Keeper, schema, stage::Stage};

#[test]
fn a_doctor_tells_what_a_store_promises_and_leaves_nothing() {
    doctors(&Stage::new());
}

#[test]
fn a_doctor_of_postgres_tells_what_it_promises_and_leaves_nothing() {
    doctors(&Stage::on_postgres());
}

fn doctors(stage: &Stage) {
    let words = ["doctor", "--samples", "5", "--ttl", "12s", "--nodes", "40"];
    let diagnosis = stage.json(&words, "Diagnosis");
    assert_eq!(diagnosis["healthy"], true, "{diagnosis:#}");
    assert_eq!(diagnosis["settings"], json!({"ttl_ms": 12_000, "heartbeat_ms": 4000, "nodes": 40}));
    assert!((diagnosis["costs"]["commits_per_second"].as_f64().unwrap() - 10.0).abs() < 0.001);
    assert_eq!(diagnosis["promises"][3]["from_ms"], 8600.0);
    assert_eq!(diagnosis["promises"][3]["to_ms"], 16_600.0);
    for measured in ["read", "commit", "waking"] {
        let latency = &diagnosis["measured"][measured];
        assert!(
            latency["samples"] == 5 && latency["median_ms"].as_f64() > Some(0.0),
            "{measured}: {latency}"
        );
    }
    let checks: Vec<&str> =
        diagnosis["checks"].as_array().unwrap().iter().filter_map(|check| check["check"].as_str()).collect();
    assert!(checks.starts_with(&["store", "rights", "clock", "limits", "ttl", "load"]), "{checks:?}");
    let text = stage.text(&words);
    for part in
        ["ok   rights:", "kill -9, with a last will", "8.6s to 16.6s", "40 nodes cost 10.0 commits a second"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let left = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let store = tenure::open(stage.store()).await.unwrap();
        store.scan(&Range::all(), store.limits().page_items.min(100)).await.unwrap().items
    });
    let ours: Vec<_> = left.iter().filter(|item| format!("{:?}", item.key).contains("doctor")).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

#[test]
fn a_doctor_sees_who_is_there_and_judges_settings() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    let diagnosis = stage.json(&["doctor", "--samples", "3", "--ttl", "6s"], "Diagnosis");
    let check = |name: &str| -> Value {
        let checks = diagnosis["checks"].as_array().unwrap();
        checks
            .iter()
            .find(|check| check["check"] == name)
            .unwrap_or_else(|| panic!("{name}: {checks:?}"))
            .clone()
    };
    assert_eq!(check("members")["text"], "1 are live");
    assert!(check("ttls")["text"].as_str().unwrap().contains("k"));
    // No store renews a million sessions a second for us.
    let said = stage.run(&["doctor", "--samples", "3", "--nodes", "1000000", "--ttl", "1s", "--json"]);
    let diagnosis: Value = serde_json::from_str(&said.out).unwrap();
    schema::check("Diagnosis", &diagnosis);
    assert_eq!((said.code, &diagnosis["healthy"]), (107, &json!(false)), "{diagnosis:#}");
    for (words, named) in [
        (["--ttl", "6s", "--heartbeat", "4s"], "renewal_interval"),
        (["--ttl", "500ms", "--nodes", "3"], "ttl >= 1 s"),
    ] {
        let said = stage.run(&[&["doctor"], &words[..]].concat());
        assert!(said.code == 2 && said.err.contains(named), "{said:?}");
    }
    keeper.leave();
}

#[test]
fn what_a_store_needs_is_printed_without_connecting() {
    let stage = Stage::new();
    let print = |store: &str| stage.text(&["schema", "print", "--store", store]);
    let sql = print("postgres://u:secret@127.0.0.1:1/db?schema=office");
    assert!(
        sql.contains("CREATE TABLE office.kv") && sql.contains("GRANT") && !sql.contains("secret"),
        "{sql}"
    );
    assert!(print("mysql://u:secret@127.0.0.1:1/db?prefix=p_").contains("p_"));
    assert!(print("sqlite:x.db").starts_with("-- SQLite needs nothing"));
    assert!(print("etcd://127.0.0.1:1").starts_with("-- etcd has no schema"));
    let printed = stage.json(&["schema", "print", "--store", "etcd://127.0.0.1:1"], "StoreSchema");
    assert_eq!(printed["sql"], Value::Null);
    let said = stage.run(&["schema", "print", "--store", "oracle://x"]);
    assert!(said.code == 2 && said.err.contains("oracle"), "{said:?}");
    assert!(std::fs::read_dir(stage.path()).unwrap().next().is_none(), "nothing was made");
}
