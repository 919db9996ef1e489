//! `tenure resign`, `hand-over` and `depose`.

use serde_json::json;

use crate::{keeper::Keeper, stage::Stage};

#[test]
fn leaders_that_listen_give_up_when_they_are_asked() {
    gives_up(&Stage::new());
}

#[test]
fn leaders_on_postgres_give_up_when_they_are_asked() {
    gives_up(&Stage::on_postgres());
}

fn gives_up(stage: &Stage) {
    let mut keepers: Vec<Keeper> = ["a", "b", "c"].iter().map(|node| Keeper::join(stage, node)).collect();
    for (keeper, waiting) in
        keepers.iter_mut().zip(["Nobody waits", "b waits", "b waits for it first, and 1"])
    {
        keeper.stand("office");
        stage.until(&["why", "office"], |said| said.out.contains(waiting));
    }
    let handed = stage.json(&["hand-over", "office", "--to", "c", "--yes"], "Change");
    assert_eq!(
        (&handed["leader"]["node"], &handed["term"], &handed["done"]),
        (&json!("a"), &json!(1), &json!(true))
    );
    assert_eq!((&handed["now"]["leader"]["node"], &handed["now"]["term"]), (&json!("c"), &json!(2)));
    let history = stage.json(&["history", "office"], "Items_PastTerm");
    assert_eq!(history["items"][0]["end"], "handed_over");
    let resigned = stage.json(&["resign", "office", "--yes"], "Change");
    assert_eq!((&resigned["leader"]["node"], &resigned["done"]), (&json!("c"), &json!(true)));
    assert_eq!(stage.text(&["leader", "office"]), "b\n");
    assert!(stage.text(&["why", "office"]).contains("it resigned"));
    let deposed = stage.json(&["depose", "office", "--yes"], "Change");
    assert_eq!((&deposed["leader"]["node"], &deposed["term"]), (&json!("b"), &json!(3)));
    stage.until(&["why", "office"], |said| said.out.contains("it was deposed by an operator"));
    stage.until(&["leader", "office"], |said| said.code == 0);
    let unknown = stage.run(&["hand-over", "office", "--to", "stranger", "--yes"]);
    assert!(unknown.code == 105 && unknown.err.contains("stranger does not wait for office"), "{unknown:?}");
}

#[test]
fn one_that_does_not_listen_stays_and_what_to_do_is_said() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "deaf");
    keeper.lead_deaf("office");
    let said = stage.run(&["resign", "office", "--yes", "--timeout", "200ms"]);
    assert!(
        said.code == 106 && said.err.contains("deaf still leads") && said.err.contains("depose"),
        "{said:?}"
    );
    let asked = stage.json(&["resign", "office", "--yes", "--timeout", "0s"], "Change");
    assert_eq!(asked["done"], false);
    let own = stage.run(&["hand-over", "office", "--to", "deaf", "--yes"]);
    assert!(own.code == 106 && own.err.contains("leads office already"), "{own:?}");
    assert_eq!(stage.text(&["depose", "office", "-y"]), "deaf was deposed\n");
    for words in [&["resign", "office", "--yes"][..], &["depose", "office", "--yes"]] {
        let said = stage.run(words);
        assert!(said.code == 104 && said.err.contains("nobody leads election office"), "{said:?}");
    }
}

#[test]
fn nothing_is_done_without_being_meant() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    keeper.lead_deaf("office");
    for words in [&["resign", "office"][..], &["hand-over", "office", "--to", "x"], &["depose", "office"]] {
        let said = stage.run(words);
        assert!(said.code == 2 && said.err.contains("give --yes if you mean it"), "{said:?}");
    }
    assert_eq!(stage.json(&["leader", "office"], "Election")["term"], 1);
    // A terminal is asked, and no is an answer. So is nothing.
    for (typed, code) in [("n\n", 106), ("\n", 106), ("yes\n", 0)] {
        let store = format!("TENURE_STORE={}", stage.store());
        let line = format!("{} depose office", env!("CARGO_BIN_EXE_tenure"));
        let mut script = std::process::Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("TENURE_STORE", stage.store());
        script.env("TENURE_CLUSTER", crate::stage::CLUSTER).current_dir(stage.path());
        script.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = script.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), typed.as_bytes()).unwrap();
        let said = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout).into_owned();
        assert!(text.contains("Take office from k, who leads in term 1?"), "{store}: {text}");
        assert_eq!(said.status.code(), Some(code), "{text}");
    }
    assert_eq!(stage.run(&["leader", "office"]).code, 104);
}
