//! How commands end when something is wrong: bad names, stores that are not there, files with options.

use std::fs;

use serde_json::Value;

use crate::{keeper::Keeper, schema, stage::Stage};

#[test]
fn unknown_things_have_a_code_of_their_own() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    let absent: [&[&str]; 8] = [
        &["why", "nothing"],
        &["history", "nothing"],
        &["resign", "nothing", "--yes"],
        &["depose", "nothing", "--yes"],
        &["server", "show", "no", "such"],
        &["server", "dead-letters", "no", "such"],
        &["server", "delete", "no", "such", "--yes"],
        &["registry", "list", "nothing"],
    ];
    for words in absent {
        let said = stage.run(words);
        assert!(
            said.code == 105 && said.out.is_empty() && said.err.starts_with("tenure: "),
            "{words:?}: {said:?}"
        );
    }
    assert_eq!(stage.run(&["leader", "nothing"]).code, 104);
    keeper.leave();
}

#[test]
fn names_that_are_none_are_refused_before_anything_is_opened() {
    let stage = Stage::new();
    let long = "x".repeat(256);
    for name in ["", "line\nbreak", "\u{1b}[2J", long.as_str()] {
        for words in
            [&["leader", name][..], &["server", "show", "kind", name], &["registry", "whereis", name, "x"]]
        {
            let said = stage.run(words);
            assert!(said.code == 2 && said.err.contains("name"), "{words:?}: {said:?}");
        }
        let said = stage.run(&["status", "--cluster", name]);
        assert!(said.code == 2 && !said.err.contains('\u{1b}'), "{said:?}");
    }
    assert!(fs::read_dir(stage.path()).unwrap().next().is_none(), "nothing was made");
    // Names that look harmful and are allowed.
    let mut keeper = Keeper::join(&stage, "k");
    let names = ["../../etc", "'; DROP TABLE kv; --", "--json", "$(reboot)", "a/b c\"d"];
    for name in names {
        keeper.stand(name);
    }
    for name in names {
        stage.until(&["leader", "--", name], |said| said.out == "k\n");
        let why = stage.run(&["why", "--json", "--", name]);
        let why: Value = serde_json::from_str(&why.out).unwrap();
        schema::check("Why", &why);
        assert_eq!(why["name"], name);
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for message in ["", "Reset", "{", deep.as_str()] {
        let said = stage.run(&["server", "cast", "counter", "x", message]);
        assert!(said.code == 2 && said.err.contains("no JSON"), "{said:?}");
    }
    let said = stage.run(&["server", "call", "counter", "x", "1", "--key", &"k".repeat(129)]);
    assert!(said.code == 2 && said.err.contains("128"), "{said:?}");
    assert_eq!(stage.run(&["server", "show", "counter", "x"]).code, 105, "nothing was sent");
    keeper.leave();
}

#[test]
fn a_store_that_is_not_there_is_told_and_not_made() {
    let stage = Stage::new();
    for words in [
        &["status"][..],
        &["leader", "x"],
        &["watch"],
        &["server", "cast", "a", "b", "1"],
        &["depose", "x", "-y"],
    ] {
        let said = stage.run(words);
        assert!(said.code == 102 && said.err.contains("there is no file"), "{words:?}: {said:?}");
    }
    assert!(fs::read_dir(stage.path()).unwrap().next().is_none(), "nothing was made");
    let store = "postgres://user:secret@127.0.0.1:1/db";
    for words in [&["status"][..], &["doctor"], &["watch", "x"]] {
        let said = stage.run(&[words, &["--store", store]].concat());
        assert!(said.code == 102 && !said.err.contains("secret"), "{words:?}: {said:?}");
    }
    let said = stage.run(&["status", "--store", "oracle://user:secret@host/x"]);
    assert!(said.code == 2 && said.err.contains("oracle") && !said.err.contains("secret"), "{said:?}");
}

#[test]
fn a_file_says_where_the_cluster_is() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    let file = stage.path().join("here.toml");
    fs::write(&file, format!("store = {:?}\ncluster = \"stage\"\n[members]\njson = true\n", stage.store()))
        .unwrap();
    let run = |words: &[&str]| {
        let output =
            stage.command(words).env_remove("TENURE_STORE").env_remove("TENURE_CLUSTER").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run(&["members", "--config", file.to_str().unwrap()]);
    assert!(code == Some(0) && out.contains("\"node\": \"k\""), "{out}");
    assert_eq!(run(&["members"]).0, Some(102));
    fs::rename(&file, stage.path().join("tenure.toml")).unwrap();
    assert_eq!(run(&["members"]).0, Some(0));
    keeper.leave();
}

#[test]
fn whoever_wants_no_more_ends_it_quietly() {
    let stage = Stage::new();
    let mut child = stage.command(&["schema", "api"]).spawn().unwrap();
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{said:?}");
}
