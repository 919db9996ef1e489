//! The help of each command, completions and pages.

use std::process::Command;

use crate::stage::Stage;

fn tenure(words: &[&str]) -> String {
    let said = Command::new(env!("CARGO_BIN_EXE_tenure")).args(words).output().unwrap();
    assert!(said.status.success(), "{words:?}: {said:?}");
    String::from_utf8(said.stdout).unwrap()
}

/// The commands that a help lists.
fn listed(help: &str) -> Vec<String> {
    let behind = help.split_once("\nCommands:\n").map_or("", |(_, behind)| behind);
    let lines = behind.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Looks at the help of a command and of all below it; returns how many there are.
fn look_at(words: &[&str]) -> usize {
    let help = tenure(&[words, &["--help"]].concat());
    let about = help.lines().next().unwrap_or_default();
    assert!(about.len() > 10 && !about.starts_with("Usage"), "{words:?} says nothing about itself: {help}");
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let is_option = line.starts_with("      --") || line.starts_with("  -");
        let is_argument = line.starts_with("  <") || line.starts_with("  [");
        if !is_option && !is_argument {
            continue;
        }
        // What it does stands behind it, or below it, farther to the right.
        let behind = line.trim().split_once("  ").is_some_and(|(_, words)| !words.trim().is_empty());
        let below =
            lines.peek().is_some_and(|next| next.starts_with("          ") && !next.trim().is_empty());
        assert!(behind || below, "{words:?} does not say what this does: {line}");
    }
    let below = listed(&help);
    1 + below.iter().map(|name| look_at(&[words, &[name.as_str()]].concat())).sum::<usize>()
}

#[test]
fn each_command_says_what_it_does_and_each_option_too() {
    let help = tenure(&["--help"]);
    for command in [
        "status",
        "members",
        "elections",
        "leader",
        "why",
        "history",
        "watch",
        "resign",
        "hand-over",
        "depose",
    ] {
        assert!(listed(&help).iter().any(|name| name == command), "{command} is missing: {help}");
    }
    let below = listed(&tenure(&["server", "--help"]));
    assert_eq!(below, ["show", "call", "cast", "dead-letters", "replay", "drop", "unlock", "delete"]);
    assert_eq!(listed(&tenure(&["registry", "--help"])), ["list", "whereis", "explain"]);
    assert!(look_at(&[]) > 25);
    for code in ["102", "104", "105", "106", "107"] {
        assert!(help.contains(code), "{help}");
    }
}

#[test]
fn shells_complete_all_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = tenure(&["completions", shell]);
        assert!(script.contains("hand-over") && script.contains("dead-letters"), "{shell}");
    }
}

#[test]
fn there_is_a_page_for_each_command() {
    assert!(tenure(&["man"]).contains(".TH tenure"));
    assert!(tenure(&["man", "server", "call"]).contains("tenure\\-server\\-call"));
    let stage = Stage::new();
    let folder = stage.path().join("man");
    stage.text(&["man", "--folder", folder.to_str().unwrap()]);
    for page in ["tenure.1", "tenure-hand-over.1", "tenure-server-call.1", "tenure-registry-whereis.1"] {
        assert!(folder.join(page).is_file(), "{page}");
    }
    let refused = stage.run(&["man", "serverr"]);
    assert!(refused.code == 2 && refused.err.contains("serverr"), "{refused:?}");
}
