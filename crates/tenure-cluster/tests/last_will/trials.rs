//! What happens to a last will, and what does not.

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::sys::signal::{Signal, kill};
use tenure_cluster::{
    Owner, SessionId,
    will::{LastWill, WillError, WillProgram},
};
use tenure_store::Env;

use crate::{
    node::{A_WHILE, Node, exists, lives, pid, status, until},
    roles,
};

pub(crate) fn a_killed_nodes_will_is_carried_out() {
    let mut times = Vec::new();
    for _ in 0..10 {
        let mut node = Node::start();
        node.signal(Signal::SIGKILL);
        let (ended, took) = node.await_end(node.executor);
        assert_eq!(ended, [node.session.as_str()]);
        times.push(took);
        node.wait();
    }
    times.sort();
    println!("carried out after {times:?}");
    assert!(times[times.len() / 2] < Duration::from_millis(100), "{times:?}");
}

pub(crate) fn a_node_that_just_ends_has_died_too() {
    for how in ["exit", "return"] {
        let mut node = Node::start();
        node.tell(how);
        node.wait();
        assert_eq!(node.await_end(node.executor).0, [node.session.as_str()], "{how}");
    }
}

pub(crate) fn a_revoked_will_is_not_carried_out() {
    let mut node = Node::start();
    let executor = node.executor;
    let env = Env::system();
    let start = env.now();
    node.does("revoke");
    assert!(env.now() - start < Duration::from_secs(3), "it ended by itself, and was not killed");
    assert!(!exists(executor), "it is gone when revoking is done, and no zombie");
    node.signal(Signal::SIGKILL);
    node.wait();
    thread::sleep(A_WHILE);
    assert!(node.ended().is_empty());
}

pub(crate) fn only_the_latest_will_is_carried_out() {
    let mut node = Node::start();
    let (executor, first) = (node.executor, node.session.clone());
    for _ in 0..100 {
        node.does("replace");
    }
    assert_eq!(node.executor, executor, "the same process keeps it");
    assert_ne!(node.session, first);
    node.signal(Signal::SIGKILL);
    assert_eq!(node.await_end(executor).0, [node.session.as_str()]);
}

pub(crate) fn a_dropped_will_waits_for_the_death() {
    let mut node = Node::start();
    let (executor, session) = (node.executor, node.session.clone());
    node.does("drop");
    thread::sleep(A_WHILE);
    assert!(node.ended().is_empty() && lives(executor), "the node lives");
    assert_eq!(status(executor, "Threads"), 1, "it waits in its pipe, and not for a proof");
    node.signal(Signal::SIGKILL);
    assert_eq!(node.await_end(executor).0, [session]);
}

pub(crate) fn dropped_wills_are_bounded() {
    let mut node = Node::start();
    let mut dropped = Vec::new();
    for _ in 0..20 {
        dropped.push(node.executor);
        node.does("drop");
        node.does("start");
    }
    let kept: Vec<u32> = dropped.iter().copied().filter(|&executor| exists(executor)).collect();
    assert_eq!(kept, dropped[4..], "the oldest are gone, and no zombies");
    assert!(node.ended().is_empty());
    node.signal(Signal::SIGKILL);
    until(|| node.ended().len() == 17 && !dropped.iter().any(|&executor| lives(executor)));
}

pub(crate) fn a_stopped_node_is_not_dead() {
    let node = Node::start();
    node.signal(Signal::SIGSTOP);
    thread::sleep(A_WHILE);
    assert!(node.ended().is_empty() && lives(node.executor));
    node.signal(Signal::SIGKILL);
    assert_eq!(node.await_end(node.executor).0, [node.session.as_str()]);
}

pub(crate) fn the_executor_outlives_signals_to_the_group() {
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGKILL] {
        let mut node = Node::start();
        node.signal_group(signal);
        node.wait();
        assert_eq!(node.await_end(node.executor).0, [node.session.as_str()], "{signal}");
    }
}

pub(crate) fn the_executor_does_not_listen_to_signals() {
    let node = Node::start();
    for signal in [Signal::SIGINT, Signal::SIGHUP, Signal::SIGTERM, Signal::SIGQUIT, Signal::SIGTSTP] {
        kill(pid(node.executor), signal).unwrap();
    }
    thread::sleep(A_WHILE);
    node.signal(Signal::SIGKILL);
    assert_eq!(node.await_end(node.executor).0, [node.session.as_str()]);
}

pub(crate) fn a_lost_executor_is_noticed_and_replaced() {
    let mut node = Node::start();
    let lost = node.executor;
    node.tell("lose");
    thread::sleep(A_WHILE);
    kill(pid(lost), Signal::SIGKILL).unwrap();
    let said = node.line();
    assert!(said.contains("does not hold the last will any more"), "{said}");
    node.learn();
    assert!(!exists(lost), "it is no zombie");
    assert_eq!(node.executor, 0);
    node.does("start");
    assert!(node.executor != lost && lives(node.executor));
    node.signal(Signal::SIGKILL);
    assert_eq!(node.await_end(node.executor).0, [node.session.as_str()]);
}

pub(crate) fn the_executor_has_little_and_no_secret() {
    let node = Node::start();
    let file = |name: &str| fs::read(format!("/proc/{}/{name}", node.executor)).unwrap();
    for name in ["cmdline", "environ"] {
        let bytes = file(name);
        let secret = bytes.windows(roles::SECRET.len()).any(|part| part == roles::SECRET.as_bytes());
        assert!(!secret, "{name}: {}", bytes.escape_ascii());
    }
    let of = |name: &str| status(node.executor, name);
    println!("memory: VmRSS {} KiB, RssAnon {} KiB", of("VmRSS"), of("RssAnon"));
    assert!(of("VmRSS") < 5 * 1024, "{} KiB", of("VmRSS"));
    assert_eq!(of("Threads"), 1);
    let open: Vec<_> = fs::read_dir(format!("/proc/{}/fd", node.executor)).unwrap().flatten().collect();
    assert_eq!(open.len(), 3, "{open:?}");
    for entry in open {
        let target = fs::read_link(entry.path()).unwrap();
        assert!(target.to_string_lossy().starts_with("pipe:"), "{entry:?}: {target:?}");
    }
    assert_eq!(fs::read_link(format!("/proc/{}/cwd", node.executor)).unwrap(), Path::new("/"));
}

pub(crate) fn a_program_that_cannot_be_started_is_named() {
    let error = started("no/such/program", &[]).unwrap_err();
    assert!(matches!(error, WillError::Program { .. }));
    let text = error.to_string();
    assert!(text.contains("no/such/program") && text.contains("could not start"), "{text}");
    assert!(text.contains("do without a last will") && !text.contains(roles::SECRET), "{text}");
    let here = std::env::current_dir().unwrap();
    assert!(text.contains(here.to_str().unwrap()), "the whole path: {text}");
}

pub(crate) fn a_program_that_is_no_executor_is_named() {
    let error = started("/bin/sh", &["-c", "echo unknown option >&2; exit 2"]).unwrap_err().to_string();
    assert!(error.contains("/bin/sh") && error.contains("unknown option"), "{error}");
    let error =
        started("/bin/sh", &["-c", "echo hello, what can I do for you; exec cat"]).unwrap_err().to_string();
    assert!(error.contains("/bin/sh") && error.contains("same release"), "{error}");
    let env = Env::system();
    let start = env.now();
    let error = started("/bin/sleep", &["1000"]).unwrap_err().to_string();
    assert!(error.contains("/bin/sleep") && error.contains("did not say within 5s"), "{error}");
    assert!(env.now() - start < Duration::from_secs(15));
    assert_eq!(children(&["sh", "sleep", "cat"]), [""; 0], "none of them is left, not even as a zombie");
}

pub(crate) fn garbage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 10_000], &[0; 100], b"", b"\0\0"] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(roles::EXECUTOR).arg(folder.path()).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut executor = command.spawn().unwrap();
        // It may be gone before it has read all.
        let _ = executor.stdin.take().unwrap().write_all(garbage);
        let output = executor.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with("last will: ") && said.contains("nothing is done"), "{said}");
        assert!(output.stdout.is_empty());
    }
    assert!(!folder.path().join(roles::DONE).exists());
}

fn started(path: &str, arguments: &[&str]) -> Result<u32, WillError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let env = Env::system();
        let mut program = WillProgram::new(path, format!("postgres://u:{}@h/d", roles::SECRET)).unwrap();
        program.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let owner = Owner::this_process(None);
        let will = program.will(&"orders".parse().unwrap(), SessionId::random(&env), &owner);
        let mut started = LastWill::start(&program, &will, &env).await?;
        let id = started.process_id().unwrap();
        started.replace(&will, &env).await?;
        started.revoke(&env).await;
        until(|| !exists(id));
        Ok(id)
    })
}

/// Children of this process that run one of these programs.
fn children(programs: &[&str]) -> Vec<String> {
    let parent = std::process::id().to_string();
    let stats = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("stat"));
    let stats = stats.filter_map(|path| fs::read_to_string(path).ok());
    let child = |stat: &String| {
        let (name, rest) = stat.rsplit_once(") ").unwrap_or_default();
        let program = name.split_once('(').is_some_and(|(_, name)| programs.contains(&name));
        program && rest.split(' ').nth(1) == Some(&parent)
    };
    stats.filter(child).collect()
}
