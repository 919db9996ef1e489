//! The commands that look, on a cluster of real processes.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::{
    keeper::Keeper,
    schema,
    stage::{Process, Stage},
};

#[test]
fn a_cluster_is_seen_as_it_is() {
    looks(&Stage::new());
}

#[test]
fn a_cluster_on_postgres_is_seen_as_it_is() {
    looks(&Stage::on_postgres());
}

fn looks(stage: &Stage) {
    let first = stage.node("a", "job");
    stage.until(&["leader", "job"], |said| said.out == "a\n");
    let _second = stage.node("b", "job");
    stage.until(&["why", "job"], |said| said.out.contains("b waits for it."));

    let status = stage.json(&["status"], "Status");
    assert_eq!((&status["members"]["live"], &status["elections"]["led"]), (&json!(2), &json!(1)));
    assert!(stage.text(&["status"]).contains("2 live, 0 suspect, 0 gone"));
    assert!(stage.text(&["status", "--cluster", "other"]).contains("nothing in cluster other"));
    let members = stage.json(&["members"], "Items_Member");
    assert_eq!((&members["items"][0]["node"], &members["items"][1]["state"]), (&json!("a"), &json!("live")));
    assert!(stage.text(&["members"]).contains("a     live"));
    let elections = stage.json(&["elections"], "Items_Election");
    let Value::Object(job) = &elections["items"][0] else { panic!("{elections}") };
    assert_eq!((&job["leader"]["node"], &job["term"], &job["waiting"]), (&json!("a"), &json!(1), &json!(1)));
    assert!(stage.text(&["elections"]).contains("job          1  a"));
    assert_eq!(stage.json(&["elections", "--vacant"], "Items_Election")["items"], json!([]));
    assert_eq!(stage.json(&["leader", "job"], "Election")["leader"]["node"], "a");
    assert_eq!(stage.json(&["history", "job"], "Items_PastTerm")["items"], json!([]));
    let why = stage.json(&["why", "job"], "Why");
    assert_eq!((&why["candidates"][0]["node"], &why["before"]), (&json!("b"), &Value::Null));

    // The guardian of the one that is killed ends its session, and the other takes over.
    drop(first);
    stage.until(&["leader", "job"], |said| said.out == "b\n");
    let history = stage.json(&["history", "job"], "Items_PastTerm");
    assert_eq!(
        (&history["items"][0]["node"], &history["items"][0]["end"]),
        (&json!("a"), &json!("session_ended"))
    );
    assert!(stage.text(&["history", "job"]).contains("session ended"));
    let why = stage.json(&["why", "job"], "Why");
    assert_eq!((&why["leader"]["node"], &why["before"]["node"]), (&json!("b"), &json!("a")));
    assert_eq!(why["gap_ms"], Value::Null, "nobody knows when the first one ceased to lead");
    let text = stage.text(&["why", "job"]);
    assert!(text.contains("b leads job in term 2") && text.contains("Term 1 was that of a"), "{text}");
}

#[test]
fn an_office_whose_holder_is_gone_tells_who_that_was() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "last");
    keeper.lead_deaf("office");
    assert!(stage.text(&["leader", "office"]).contains("last"));
    keeper.leave();
    let said = stage.run(&["leader", "office"]);
    assert_eq!((said.code, said.out.as_str()), (104, ""), "{said:?}");
    let why = stage.json(&["why", "office"], "Why");
    assert_eq!((&why["leader"], &why["ended"]["node"]), (&Value::Null, &json!("last")));
    let text = stage.text(&["why", "office"]);
    assert!(text.contains("The session of last") && text.contains("last is gone (left)"), "{text}");
    assert!(stage.text(&["elections", "--vacant"]).contains("office"));
}

#[test]
fn who_waits_for_a_leader_is_told_when_there_is_one() {
    let stage = Stage::new();
    let mut keeper = Keeper::join(&stage, "k");
    let mut waits = Process(stage.command(&["leader", "late", "--wait", "30s"]).spawn().unwrap());
    let out = waits.0.stdout.take().unwrap();
    keeper.stand("late");
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), waits.0.wait().unwrap().code()), ("k\n", Some(0)));
    assert_eq!(stage.run(&["leader", "never", "--wait", "50ms"]).code, 104);
}

/// A watch, and what it tells.
struct Watching {
    process: Process,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Watching {
    fn start(stage: &Stage, words: &[&str]) -> Self {
        // Whoever runs the tests may ignore SIGINT, and what it starts would do so too.
        let mut command = std::process::Command::new("env");
        let watch = stage.command(words);
        command.args(["--default-signal=INT"]).arg(watch.get_program()).args(watch.get_args());
        command.envs(watch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let mut process = Process(command.current_dir(stage.path()).stdout(Stdio::piped()).spawn().unwrap());
        let lines = BufReader::new(process.0.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    fn line(&mut self) -> String {
        self.lines.next().expect("it goes on").unwrap()
    }

    fn event(&mut self) -> Value {
        let event = serde_json::from_str(&self.line()).unwrap();
        schema::check("Event", &event);
        event
    }

    /// Ends it; returns its code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill(Pid::from_raw(self.process.0.id().try_into().unwrap()), signal).unwrap();
        assert!(self.lines.by_ref().all(|line| line.is_ok()));
        self.process.0.wait().unwrap().code()
    }
}

#[test]
fn an_election_is_watched_live() {
    let stage = Stage::new();
    let mut keeper = Keeper::join(&stage, "k");
    let mut watching = Watching::start(&stage, &["watch", "office", "--json"]);
    let first = watching.event();
    assert_eq!((&first["what"], &first["term"]), (&json!("vacant"), &Value::Null));
    keeper.stand("office");
    let led = watching.event();
    assert_eq!((&led["what"], &led["node"], &led["term"]), (&json!("led"), &json!("k"), &json!(1)));
    assert_eq!(stage.run(&["depose", "office", "--yes"]).code, 0);
    let mut told = watching.event();
    // That nobody leads lasts for a moment only, and may not be seen.
    if told["what"] == "vacant" {
        told = watching.event();
    }
    assert_eq!((&told["what"], &told["term"], &told["cause"]), (&json!("led"), &json!(2), &json!("deposed")));
    assert_eq!(watching.end(Signal::SIGINT), Some(0));
}

#[test]
fn everything_is_watched_live() {
    let stage = Stage::new();
    let keeper = Keeper::join(&stage, "k");
    keeper.lead_deaf("office");
    let mut watching = Watching::start(&stage, &["watch", "--json"]);
    let (member, election) = (watching.event(), watching.event());
    assert_eq!(
        (&member["sort"], &member["subject"], &member["what"]),
        (&json!("member"), &json!("k"), &json!("live"))
    );
    assert_eq!((&election["sort"], &election["subject"]), (&json!("election"), &json!("office")));
    let other = Keeper::join(&stage, "other");
    let joined = watching.event();
    assert_eq!((&joined["subject"], &joined["what"]), (&json!("other"), &json!("live")));
    other.leave();
    let left = watching.event();
    assert_eq!((&left["what"], &left["cause"]), (&json!("gone"), &json!("left")));
    keeper.leave();
    let both = [watching.event(), watching.event()];
    let told =
        |sort: &str, what: &str| both.iter().any(|event| event["sort"] == sort && event["what"] == what);
    assert!(told("member", "gone") && told("election", "vacant"), "{both:?}");
    assert_eq!(watching.end(Signal::SIGTERM), Some(0));

    let mut watching = Watching::start(&stage, &["watch", "office"]);
    let line = watching.line();
    assert!(line.contains("office") && line.contains("nobody leads: the session of k has ended"), "{line}");
    assert_eq!(watching.end(Signal::SIGINT), Some(0));
}

#[test]
fn names_are_found_and_explained() {
    let stage = Stage::new();
    let mut keeper = Keeper::join(&stage, "k");
    assert_eq!(stage.text(&["registry", "list"]), "no registries\n");
    keeper.register("users", &["alice", "bob", "bert"]);
    let registries = stage.json(&["registry", "list"], "Items_Registry");
    assert_eq!(
        (&registries["items"][0]["name"], &registries["items"][0]["names"]),
        (&json!("users"), &json!(3))
    );
    assert!(stage.text(&["registry", "list"]).contains("users"));
    let names = stage.json(&["registry", "list", "users", "--prefix", "b", "--limit", "1"], "Items_Entry");
    assert_eq!((&names["items"][0]["name"], &names["next"]), (&json!("bert"), &json!("bert")));
    let more = stage.json(&["registry", "list", "users", "--prefix", "b", "--after", "bert"], "Items_Entry");
    assert_eq!((&more["items"][0]["name"], &more["next"]), (&json!("bob"), &Value::Null));
    assert!(stage.text(&["registry", "list", "users"]).contains("alice"));
    assert_eq!(stage.text(&["registry", "whereis", "users", "alice"]), "k\n");
    assert_eq!(stage.json(&["registry", "whereis", "users", "alice"], "Entry")["node"], "k");
    let explained = stage.json(&["registry", "explain", "users", "alice"], "Explained");
    assert_eq!((&explained["owner"], &explained["leader"]), (&json!("live"), &json!("k")));
    assert!(stage.text(&["registry", "explain", "users", "alice"]).contains("alice is a mailbox of k"));
    for (words, named) in [(["whereis", "users", "eve"], "eve"), (["whereis", "nothing", "eve"], "nothing")] {
        let said = stage.run(&[&["registry"], &words[..]].concat());
        assert!(said.code == 105 && said.err.contains(named), "{said:?}");
    }
    let free = stage.run(&["registry", "explain", "users", "eve", "--json"]);
    schema::check("Explained", &serde_json::from_str(&free.out).unwrap());
    assert_eq!(free.code, 105, "{free:?}");
}
