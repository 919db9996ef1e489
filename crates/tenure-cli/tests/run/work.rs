//! What the command finds, and when it is started again.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure::cluster::Onlooker;

use crate::office::{Office, await_that, lives, timed};

#[test]
fn the_command_finds_who_and_where_it_is() {
    let office = Office::new();
    let script = "echo $TENURE_NAME,$TENURE_NODE,$TENURE_TERM,$TENURE_STORE,$MINE";
    let mut run = office.start_shell(&["--node", "here", "--store", "sqlite:a.db"], script);
    assert_eq!((run.end(), run.out().as_str()), (0, "job,here,1,sqlite:a.db,\n"));
    // A term is never used again.
    let mut run = office.start_shell(&["--node", "there", "--store", "sqlite:a.db"], script);
    assert_eq!((run.end(), run.out().as_str()), (0, "job,there,2,sqlite:a.db,\n"));
}

#[test]
fn input_and_output_are_the_commands_alone() {
    let office = Office::new();
    let mut run = office.start_shell(&[], "cat; echo seen >&2");
    let input: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    run.feed(input.as_bytes());
    assert_eq!(run.end(), 0);
    assert!(run.out() == input, "it was changed on its way");
    assert!(run.err().contains("seen"));
    let mut run = office.start_shell(&["--quiet"], "echo seen >&2");
    assert_eq!((run.end(), run.err().as_str()), (0, "seen\n"));
}

#[test]
fn arguments_reach_the_command_as_they_are() {
    let words = ["--ttl", "-x", "", "--", "a b", "it's", "\"quoted\"", "$HOME", "*", "a\nb", "--help", "\\"];
    let office = Office::new();
    let mut command = vec!["sh", "-c", "for word; do printf '[%s]' \"$word\"; done", "sh"];
    command.extend(words);
    let mut run = office.start(&[], &command);
    assert_eq!(run.end(), 0, "{}", run.err());
    assert_eq!(run.out(), words.map(|word| format!("[{word}]")).concat());
    // Without the dashes as well.
    let all = [&["run", "job"][..], &command].concat();
    let mut run = office.start_program(env!("CARGO_BIN_EXE_tenure"), &all);
    assert_eq!(run.end(), 0, "{}", run.err());
    assert_eq!(run.out(), words.map(|word| format!("[{word}]")).concat());
}

#[test]
fn signals_reach_the_command() {
    let script = "trap 'echo usr1' USR1; trap 'echo hup' HUP; trap 'echo term; exit 9' TERM; echo ready
                  while :; do sleep 0.05; done";
    let mut run = Office::new().start_shell(&[], script);
    run.await_out("ready");
    for (signal, text) in [(Signal::SIGUSR1, "usr1"), (Signal::SIGHUP, "hup"), (Signal::SIGTERM, "term")] {
        run.signal(signal);
        run.await_out(text);
    }
    assert_eq!(run.end(), 9);
    assert_eq!(run.out(), "ready\nusr1\nhup\nterm\n");
}

/// Not a shell, which would see to that itself.
#[test]
fn no_signal_is_kept_from_the_command() {
    let mut run = Office::new().start(&[], &["grep", "SigBlk", "/proc/self/status"]);
    assert_eq!((run.end(), run.out().as_str()), (0, "SigBlk:\t0000000000000000\n"));
}

#[test]
fn signals_that_were_ignored_stay_so() {
    let command = "echo ready; while ! test -e done; do sleep 0.05; done";
    let script = format!("trap '' HUP; exec {} run job -- sh -c '{command}'", env!("CARGO_BIN_EXE_tenure"));
    let office = Office::new();
    let mut run = office.start_program("sh", &["-c", &script]);
    run.await_out("ready");
    run.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(200));
    std::fs::write(office.path().join("done"), "").unwrap();
    assert_eq!(run.end(), 0);
}

#[test]
fn a_command_that_does_not_end_is_killed_after_the_grace() {
    let office = Office::new();
    let mut run =
        office.start_shell(&["--grace", "700ms"], "trap '' TERM; echo $$; while :; do sleep 1; done");
    run.await_out("\n");
    let (code, took) = timed(|| {
        run.signal(Signal::SIGTERM);
        run.end()
    });
    assert_eq!(code, 137);
    assert!(took >= Duration::from_millis(700) && took < Duration::from_secs(3), "{took:?}");
    assert!(!lives(run.out().trim().parse().unwrap()));
}

#[test]
fn what_the_command_leaves_behind_is_ended() {
    // One in its group, one that left it, and one of these that does not want to end.
    let script = "sleep 1000 & echo $!; setsid sleep 1001 & echo $!
                  setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & sleep 0.3; exit 3";
    let mut run = Office::new().start_shell(&["--grace", "500ms"], script);
    let (code, took) = timed(|| run.end());
    assert_eq!(code, 3);
    assert!(took >= Duration::from_millis(500), "{took:?}");
    let left: Vec<i32> = run.out().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(left.len(), 3);
    for id in left {
        assert!(!lives(id), "{id} lives");
    }
}

#[test]
fn a_command_that_fails_is_started_again_with_growing_pauses() {
    let office = Office::new();
    // It fails three times, and then is done.
    let script = "date +%s%N >> times; test $(wc -l < times) -ge 4 || exit 5";
    let mut run = office.start_shell(&["--restart", "on-failure"], script);
    assert_eq!(run.end(), 0, "{}", run.err());
    let times = std::fs::read_to_string(office.path().join("times")).unwrap();
    let times: Vec<u64> = times.lines().map(|line| line.parse().unwrap()).collect();
    let pauses: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]) / 1_000_000).collect();
    assert_eq!(pauses.len(), 3);
    for (pause, least) in pauses.iter().zip([100, 200, 400]) {
        assert!((least..least + 2000).contains(pause), "{pauses:?}");
    }
}

#[test]
fn a_command_that_is_done_is_started_again_if_it_always_is() {
    let mut run = Office::new().start_shell(&["--restart=always"], "echo $TENURE_TERM");
    run.await_out("1\n2\n3\n");
    run.signal(Signal::SIGTERM);
    // Between two starts, it is the signal that ended it.
    assert!([0, 143].contains(&run.end()));
    let mut run = Office::new().start_shell(&["--restart=on-failure"], "echo $TENURE_TERM");
    assert_eq!((run.end(), run.out().as_str()), (0, "1\n"));
}

#[test]
fn events_are_objects_in_their_order() {
    let mut run = Office::new().start_shell(&["--json", "--node=here"], "exit 4");
    assert_eq!(run.end(), 4);
    let events: Vec<serde_json::Value> =
        run.err().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(words, ["waiting", "leading", "started", "exited", "released"]);
    assert!(events.iter().all(|event| event["name"] == "job" && event["node"] == "here"));
    let times: Vec<u64> = events.iter().map(|event| event["unix_ms"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!((&events[1]["term"], &events[3]["code"]), (&1.into(), &4.into()));
    assert!(events[2]["process"].as_u64().is_some());
}

#[test]
fn the_second_node_starts_as_soon_as_the_first_has_ended() {
    let office = Office::new();
    let first = office.start_shell(&["--node", "one"], "echo one; sleep 60");
    first.await_out("one");
    let second = office.start_shell(&["--node", "two"], "echo two; sleep 60");
    second.await_err("waiting");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(second.out(), "");
    let ((), took) = timed(|| {
        first.signal(Signal::SIGTERM);
        second.await_out("two");
    });
    // Far less than the ttl, of 15 s.
    assert!(took < Duration::from_secs(2), "{took:?}");
    let third = office.start_shell(&["--node", "three"], "echo three");
    third.await_err("waiting");
    let ((), took) = timed(|| {
        second.signal(Signal::SIGKILL);
        third.await_out("three");
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
    await_that("the second has left", || !lives(second.id()));
}

#[test]
fn whom_an_operator_asks_ends_its_command_hands_over_and_stands_again() {
    let office = Office::new();
    let (store, job) =
        (format!("sqlite:{}", office.path().join("tenure.db").display()), "job".parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let open = async { Onlooker::new(tenure::open(&store).await.unwrap(), "default".parse().unwrap()) };
    let look = runtime.block_on(open);
    let ask = |to: Option<&str>| {
        let asked = look.ask(&job, to.map(|to| to.parse().unwrap()));
        assert!(runtime.block_on(asked).unwrap().is_some(), "somebody leads");
    };
    let await_waiting = |number: usize| {
        await_that("they wait for it", || {
            runtime.block_on(look.election(&job)).unwrap().is_some_and(|(seen, _)| seen.waiting == number)
        });
    };
    let start = |node: &str, options: &[&str]| {
        let script =
            format!("trap 'echo {node} ends; exit 3' TERM; echo {node} leads; while :; do sleep 0.01; done");
        office.start_shell(&[&["--node", node], options].concat(), &script)
    };
    let first = start("one", &["--restart", "on-failure"]);
    first.await_out("one leads");
    let second = start("two", &[]);
    await_waiting(1);
    let mut third = start("three", &["--restart", "never"]);
    await_waiting(2);
    ask(Some("three"));
    third.await_out("three leads");
    assert_eq!(first.out(), "one leads\none ends\n");
    // Without a name, whoever waits first has it.
    await_waiting(2);
    ask(None);
    second.await_out("two leads");
    assert_eq!((third.end(), third.out().as_str()), (101, "three leads\nthree ends\n"));
    ask(None);
    await_that("the first leads again", || first.out() == "one leads\none ends\none leads\n");
}

#[test]
fn who_has_more_priority_comes_first() {
    let office = Office::new();
    let first = office.start_shell(&["--node=one"], "echo here; sleep 60");
    first.await_out("here");
    let script = "echo here; sleep 60";
    let usual = office.start_shell(&["--node=two"], script);
    usual.await_err("waiting");
    // It stands by then, or soon: the other must not be before it by its arrival alone.
    std::thread::sleep(Duration::from_millis(500));
    let before = office.start_shell(&["--node=three", "--priority=5"], script);
    before.await_err("waiting");
    std::thread::sleep(Duration::from_millis(500));
    first.signal(Signal::SIGTERM);
    before.await_out("here");
    assert_eq!(usual.out(), "");
}
