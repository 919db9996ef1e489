//! Writers go on by themselves while members are killed, and nothing is lost or done twice.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod place;

use std::{process::Command, sync::Arc, thread, time::Duration};

use tenure_etcd::{EtcdStore, Settings};
use tenure_store::{
    Commit, Env, Key, Store, StoreExt as _,
    testkit::{Progress, endure},
};
use tenure_testbed::{Etcd, Options};

/// How many times the leader is killed, and then any member.
const KILLS: usize = 6;

/// How long a member is dead, and how long all live in between.
const PAUSE: Duration = Duration::from_millis(400);

fn kill_and_restart(etcd: &Etcd, index: usize) {
    etcd.kill(index).unwrap();
    thread::sleep(PAUSE);
    etcd.restart(index).unwrap();
    thread::sleep(PAUSE);
}

/// Two of three, at once: there is no cluster until they are back.
fn kill_most(etcd: &Etcd) {
    let dead = [etcd.leader(), (etcd.leader() + 1) % 3];
    dead.iter().for_each(|index| etcd.kill(*index).unwrap());
    thread::sleep(2 * PAUSE);
    thread::scope(|scope| {
        for index in dead {
            scope.spawn(move || etcd.restart(index).unwrap());
        }
    });
    thread::sleep(PAUSE);
}

/// Does something to the cluster that takes a while.
async fn blocking(etcd: &Arc<Etcd>, work: impl FnOnce(&Etcd) + Send + 'static) {
    let etcd = Arc::clone(etcd);
    tokio::task::spawn_blocking(move || work(&etcd)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_outlive_every_member() {
    let etcd = Arc::new(Etcd::start(3, &Options::default()).unwrap());
    let place = place::Place::new(&etcd.url());
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..4 {
        let mut settings = place.settings();
        // What a follower passed on to a leader that died is never answered: the sooner it is given up, the sooner it is settled.
        settings.request_timeout = Duration::from_secs(1);
        stores.push(Arc::new(EtcdStore::open_with(settings).await.unwrap()));
    }
    let disturb = async |progress: Progress| {
        let env = Env::system();
        for kill in 0..2 * KILLS {
            progress.more(40).await;
            let any = usize::try_from(env.random_in(0..3)).unwrap();
            blocking(&etcd, move |etcd| {
                kill_and_restart(etcd, if kill < KILLS { etcd.leader() } else { any });
            })
            .await;
        }
        blocking(&etcd, kill_most).await;
    };
    let endured = endure(&stores, 16, disturb).await;
    assert!(endured.increments > 500, "{endured:?}");
}

/// A member that is there and says nothing is left like one that is gone.
#[tokio::test]
async fn a_member_that_stops_answering_is_left() {
    let etcd = Etcd::start(3, &Options::default()).unwrap();
    let signal = |index: usize, signal: &str| {
        let process = etcd.process(index).unwrap().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
    };
    let mut settings = Settings::from_url(&etcd.url()).unwrap();
    settings.request_timeout = Duration::from_millis(500);
    let store = EtcdStore::open_with(settings).await.unwrap();
    for victim in 0..3 {
        signal(victim, "-STOP");
        // A key for each: what a stopped member was asked for may still happen when it goes on.
        let key = Key::from(format!("k{victim}").as_str());
        let set = Commit::new().set(key.clone(), victim.to_string());
        place::eventually("a commit", async || store.commit(set.clone()).await.is_ok()).await;
        place::eventually("a read", async || store.get(&key).await.is_ok()).await;
        assert_eq!(store.get(&key).await.unwrap().unwrap().value, victim.to_string());
        signal(victim, "-CONT");
    }
}
