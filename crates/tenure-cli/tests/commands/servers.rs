//! `tenure servers` and `tenure server`.

use serde_json::{Value, json};

use crate::{keeper::Keeper, stage::Stage};

#[test]
fn servers_are_called_and_looked_at() {
    serves(&Stage::new());
}

#[test]
fn servers_on_postgres_are_called_and_looked_at() {
    serves(&Stage::on_postgres());
}

fn serves(stage: &Stage) {
    let keeper = Keeper::join(stage, "k");
    keeper.serve();
    assert_eq!(stage.text(&["server", "call", "counter", "visits", "{\"Add\": 5}"]), "5\n");
    assert_eq!(stage.json(&["server", "call", "counter", "visits", "{\"Add\": 2}"], "Reply")["reply"], 7);
    let once = ["server", "call", "counter", "visits", "{\"Add\": 1}", "--key", "k1"];
    assert_eq!((stage.text(&once), stage.text(&once)), ("8\n".to_owned(), "8\n".to_owned()));
    let sent = stage.json(&["server", "cast", "counter", "visits", "{\"Add\": 3}"], "Operated");
    assert_eq!(sent["done"], "sent");
    let said = stage.run_reading(&["server", "call", "counter", "visits", "-"], "{\"Add\": 0}");
    assert_eq!((said.code, said.out.as_str()), (0, "11\n"), "{said:?}");
    assert_eq!(stage.text(&["server", "call", "counter", "visits", "{\"Add\": 1}", "--priority"]), "12\n");

    let kinds = stage.json(&["servers"], "Items_Kind");
    let counter = kinds["items"].as_array().unwrap().iter().find(|kind| kind["kind"] == "counter").unwrap();
    assert_eq!((&counter["consumers"], &counter["servers"]), (&json!(1), &json!(1)));
    assert_eq!((&counter["waiting"], &counter["oldest_ms"]), (&json!(0), &Value::Null));
    assert!(stage.text(&["servers"]).contains("counter"));
    let servers = stage.json(&["servers", "counter"], "Items_Server");
    assert_eq!((&servers["items"][0]["id"], &servers["next"]), (&json!("visits"), &Value::Null));
    assert!(stage.text(&["servers", "counter"]).contains("visits"));
    // The call that was repeated is a message, too.
    let server = stage.json(&["server", "show", "counter", "visits"], "Server");
    assert_eq!(
        (&server["waiting"], &server["applied"], &server["locked"]),
        (&json!(0), &json!(7), &json!(false))
    );
    assert!(stage.text(&["server", "show", "counter", "visits"]).contains("visits"));

    for id in ["one", "two"] {
        stage.text(&["server", "cast", "nobodys", id, "1"]);
    }
    let kinds = stage.json(&["servers", "--after", "counter"], "Items_Kind");
    let waits = kinds["items"].as_array().unwrap().iter().find(|kind| kind["kind"] == "nobodys").unwrap();
    assert_eq!((&waits["consumers"], &waits["busy"], &waits["waiting"]), (&json!(0), &json!(2), &json!(2)));
    assert!(waits["oldest_ms"].is_u64(), "{waits}");

    stage.text(&["server", "cast", "counter", "other", "{\"Add\": 3}"]);
    let page = stage.json(&["servers", "counter", "--limit", "1"], "Items_Server");
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&json!("other"), &json!("other")));
    let page = stage.json(&["servers", "counter", "--limit", "1", "--after", "other"], "Items_Server");
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&json!("visits"), &Value::Null));
    keeper.leave();
}

#[test]
fn dead_letters_are_shown_replayed_and_dropped() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    keeper.serve();
    let said = stage.run(&["server", "call", "counter", "fussy", "{\"Add\": 501}"]);
    assert!(said.code == 106 && said.err.contains("too large\\u{1b}[2J"), "{said:?}");
    for number in [502, 503] {
        let words = format!("{{\"Add\": {number}}}");
        stage.text(&["server", "cast", "counter", "fussy", &words]);
    }
    let list = ["server", "dead-letters", "counter", "fussy"];
    stage.until(&list, |said| said.out.lines().count() == 4);
    let letters = stage.json(&list, "Items_DeadLetter");
    assert_eq!(letters["items"][0]["message"], json!({"Add": 501}));
    let text = stage.text(&list);
    assert!(text.contains("502 is too large\\u{1b}[2J") && !text.contains('\u{1b}'), "{text}");
    let numbers: Vec<String> =
        letters["items"].as_array().unwrap().iter().map(|letter| letter["number"].to_string()).collect();
    let page = stage.json(&[&list[..], &["--limit", "1"]].concat(), "Items_DeadLetter");
    assert_eq!(page["next"].as_str(), Some(numbers[0].as_str()));
    let page = stage.json(&[&list[..], &["--after", &numbers[1]]].concat(), "Items_DeadLetter");
    assert_eq!(page["items"].as_array().unwrap().len(), 1);

    // It fails again, and is a letter of another number.
    let replayed = stage.json(&["server", "replay", "counter", "fussy", &numbers[0]], "Operated");
    assert_eq!(
        (&replayed["done"], &replayed["dead_letters"][0].to_string()),
        (&json!("replayed"), &numbers[0])
    );
    stage.until(&["server", "show", "counter", "fussy", "--json"], |said| said.out.contains("\"died\": 4"));
    let again = stage.run(&["server", "replay", "counter", "fussy", &numbers[0]]);
    assert!(again.code == 105 && again.err.contains(&format!("no dead letter {}", numbers[0])), "{again:?}");
    let refused = stage.run(&["server", "drop", "counter", "fussy", "--all"]);
    assert!(refused.code == 2 && refused.err.contains("--yes"), "{refused:?}");
    let dropped = stage.json(&["server", "drop", "counter", "fussy", &numbers[1], "--yes"], "Operated");
    assert_eq!(dropped["done"], "dropped");
    assert_eq!(
        stage.text(&["server", "drop", "counter", "fussy", "--all", "--yes"]),
        "dropped 2 dead letters\n"
    );
    assert_eq!(stage.text(&list), "no dead letters\n");
    assert_eq!(stage.run(&["server", "replay", "counter", "fussy", "--all"]).code, 105);
}

#[test]
fn a_server_is_unlocked_and_deleted() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    keeper.serve();
    stage.text(&["server", "call", "counter", "busy", "{\"Add\": 1}"]);
    let idle = stage.run(&["server", "unlock", "counter", "busy", "--yes"]);
    assert!(idle.code == 106 && idle.err.contains("no locked work"), "{idle:?}");
    stage.text(&["server", "cast", "counter", "busy", "\"Work\""]);
    stage.until(&["server", "show", "counter", "busy"], |said| said.out.contains("locked"));
    let late = stage.run(&["server", "call", "counter", "busy", "{\"Add\": 1}", "--timeout", "200ms"]);
    assert!(late.code == 106 && late.err.contains("no answer within 200ms"), "{late:?}");
    for words in [["server", "unlock", "counter", "busy"], ["server", "delete", "counter", "busy"]] {
        let refused = stage.run(&words);
        assert!(refused.code == 2 && refused.err.contains("--yes"), "{refused:?}");
    }
    let unlocked = stage.json(&["server", "unlock", "counter", "busy", "--yes"], "Operated");
    assert_eq!(unlocked["done"], "unlocked");
    let deleted = stage.json(&["server", "delete", "counter", "busy", "--yes"], "Operated");
    assert_eq!(deleted["done"], "deleted");
    let gone = stage.run(&["server", "show", "counter", "busy"]);
    assert!(gone.code == 105 && gone.err.contains("no server busy of kind counter"), "{gone:?}");
    assert_eq!(stage.run(&["server", "delete", "counter", "busy", "--yes"]).code, 105);
}
