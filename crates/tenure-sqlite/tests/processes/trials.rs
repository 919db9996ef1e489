//! The trials of processes.

use std::{path::PathBuf, time::Duration};

use nix::sys::signal::Signal;
use tenure_sqlite::SqliteStore;
use tenure_store::{Commit, Env, Key, Store as _, StoreExt as _};

use crate::{
    child::Worker,
    history::{self, History},
};

const PROCESSES: usize = 8;
const KILLS: usize = 220;
const HAMMER_TIME: Duration = Duration::from_secs(20);

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("store.db")
    }

    fn hammer(&self, name: usize) -> Worker {
        Worker::start("hammer", &self.path(), &[&format!("{name}")])
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Eight processes hammer one file while one at a time is killed, at least 200 times in 20 seconds.
pub(crate) fn killed_processes_lose_nothing() {
    let place = Place::new();
    let env = Env::system();
    let mut history = History::default();
    let mut workers: Vec<Worker> = (0..PROCESSES).map(|name| place.hammer(name)).collect();
    let mut names = PROCESSES;
    let start = env.now();
    let mut kills = 0;
    while kills < KILLS || env.now() - start < HAMMER_TIME {
        pause(Duration::from_millis(env.random_in(10..140)));
        let victim = usize::try_from(env.random_in(0..PROCESSES as u64)).unwrap();
        // A sender's name is never used again, so that what an earlier one left is not taken for a later one's.
        let killed = std::mem::replace(&mut workers[victim], place.hammer(names));
        names += 1;
        kills += 1;
        history.add(killed.kill());
    }
    let acknowledged: usize = workers.into_iter().map(|worker| history.add(worker.end())).sum();
    assert!(acknowledged > 0, "somebody was still at work at the end");
    block_on(history.check(&place.path()));
}

/// Processes that are stopped, wherever they are, and go on later.
pub(crate) fn stopped_processes_lose_nothing() {
    let place = Place::new();
    let mut history = History::default();
    let workers: Vec<Worker> = (0..4).map(|name| place.hammer(name)).collect();
    for worker in &workers {
        assert_eq!(worker.line(), "open");
    }
    for round in 0..12 {
        let stopped = &workers[round % workers.len()];
        pause(Duration::from_millis(50));
        stopped.signal(Signal::SIGSTOP);
        pause(Duration::from_millis(400));
        stopped.signal(Signal::SIGCONT);
    }
    for worker in workers {
        assert!(history.add(worker.end()) > 0, "everybody got something done");
    }
    block_on(history.check(&place.path()));
}

/// Eight processes that want to write all the time each get their share.
pub(crate) fn turns_are_shared_fairly() {
    let place = Place::new();
    let mut workers: Vec<Worker> =
        (0..PROCESSES).map(|_| Worker::start("crowd", &place.path(), &[])).collect();
    for worker in &workers {
        assert_eq!(worker.line(), "open");
    }
    workers.iter_mut().for_each(Worker::go);
    let shares: Vec<u32> = workers.iter().map(|worker| worker.line().parse().unwrap()).collect();
    let fair = shares.iter().sum::<u32>() / u32::try_from(PROCESSES).unwrap();
    let least = *shares.iter().min().unwrap();
    assert!(least * 2 >= fair, "somebody got less than half of a fair share: {shares:?}");
}

/// Twenty processes find no file and make one, all at once.
pub(crate) fn twenty_processes_open_an_empty_file_at_once() {
    for _ in 0..3 {
        let place = Place::new();
        let workers: Vec<Worker> =
            (0..20).map(|name| Worker::start("open", &place.path(), &[&format!("p{name}")])).collect();
        for worker in &workers {
            assert_eq!(worker.line(), "done");
        }
        drop(workers);
        block_on(async {
            let store = SqliteStore::open(&format!("sqlite:{}", place.path().display())).await.unwrap();
            for name in 0..20 {
                assert!(store.get(&Key::from(format!("p{name}").as_str())).await.unwrap().is_some());
            }
        });
    }
}

/// A commit here wakes a watch there, by a message alone: the slow re-read is an hour away.
pub(crate) fn a_commit_wakes_another_process() {
    let place = Place::new();
    let watcher = Worker::start("watch", &place.path(), &["3600000"]);
    assert_eq!(watcher.line(), "watching");
    block_on(async {
        let store = SqliteStore::open(&format!("sqlite:{}", place.path().display())).await.unwrap();
        for count in 1..=100_u64 {
            store
                .commit(Commit::new().set(Key::from("watched/k"), history::from_count(count)))
                .await
                .unwrap();
            assert_eq!(watcher.line(), count.to_string());
        }
    });
}

/// A commit whose process died before it could tell anybody is noticed by the slow re-read.
pub(crate) fn a_waking_lost_with_its_process_comes_later() {
    let place = Place::new();
    let watcher = Worker::start("watch", &place.path(), &["200"]);
    assert_eq!(watcher.line(), "watching");
    let dead = Worker::start("commit", &place.path(), &[]);
    assert_eq!(dead.line(), "done");
    assert_eq!(watcher.line(), "1");
}

/// With ten thousand watches and nothing going on, a process uses no processor time worth measuring.
pub(crate) fn an_idle_process_uses_no_processor() {
    let place = Place::new();
    let idle = Worker::start("idle", &place.path(), &[]);
    let used_ms: u64 = idle.line().parse().unwrap();
    assert!(used_ms <= 20, "4 s of idling took {used_ms} ms of processor time");
}
