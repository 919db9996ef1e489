//! The same with `etcdctl lock` in the place of `tenure run`: it lets two commands run at a time, and that must be
//! found. A test that finds nothing anywhere proves nothing.

use std::{fs::File, path::Path, thread, time::Duration};

use nix::sys::signal::Signal;

use crate::{
    LOG, check,
    command::Style,
    log::{Family, Log},
    node::{Node, Post},
    process::{self, PATIENCE, within},
    store::{Database, Place},
};

const NODES: usize = 2;

/// The shortest that etcd keeps.
const TTL: Duration = Duration::from_secs(2);

/// How long two commands may run at a time before one is ended.
const BOTH: Duration = Duration::from_millis(200);

/// Kills one `etcdctl`, and stops another beyond its ttl.
pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let log_path = folder.path().join(LOG);
    File::create(&log_path).unwrap();
    let database = Database::start(Place::Etcd, NODES, folder.path());
    let mut started = 0;
    let mut node = |seat: usize| {
        started += 1;
        let (name, url) = (format!("node-{seat}-{started}"), database.url(seat));
        Node::etcdctl(Post { name, url, ttl: TTL, style: Style::Obedient }, folder.path())
    };
    let mut nodes: Vec<Node> = (0..NODES).map(&mut node).collect();
    let mut log = Log::open(&log_path);
    for signal in [Signal::SIGKILL, Signal::SIGSTOP] {
        let leader = await_family(&mut log, None);
        let seat = nodes.iter().position(|node| node.post.name == leader.node).unwrap();
        nodes[seat].signal(signal);
        await_family(&mut log, Some(&leader));
        thread::sleep(BOTH);
        process::send(leader.command, Signal::SIGKILL);
        nodes[seat].kill();
        nodes[seat] = node(seat);
    }
    let first = flaws(&log_path);
    assert!(first.len() >= 2, "two overlaps were provoked, and these were found: {first:?}");
    let all = first.iter().all(|flaw| flaw.starts_with("two at a time"));
    assert!(all, "only overlaps were provoked: {first:?}");
    log.read();
    log.lives.iter().for_each(|life| process::send(life.family.command, Signal::SIGKILL));
}

/// Waits for a family that is not this one, and began last.
fn await_family(log: &mut Log, not: Option<&Family>) -> Family {
    let mut found = None;
    let come = within(PATIENCE, || {
        log.read();
        found = log.youngest().map(|life| life.family.clone()).filter(|family| Some(family) != not);
        found.is_some()
    });
    assert!(come, "nobody leads");
    found.expect("it was awaited")
}

fn flaws(log: &Path) -> Vec<String> {
    let mut log = Log::open(log);
    log.read();
    check::flaws(&log.lives)
}
