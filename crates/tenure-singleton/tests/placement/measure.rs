//! How long nobody runs a singleton while it is moved, on a real store.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_cluster::{Cluster, Settings};
use tenure_singleton::{Mandate, Singleton, Singletons as _};
use tenure_sqlite::SqliteStore;
use tenure_store::{Env, Moment};

/// Half of them and a few, since nodes need not be quite even.
const COUNT: usize = 2 * MOVES + 4;

const MOVES: usize = 50;

type Log = Arc<Mutex<Vec<(String, &'static str, bool, Moment)>>>;

fn spread(cluster: &Cluster, node: &'static str, log: &Log, env: &Env) -> Vec<Singleton> {
    let start = |number: usize| {
        let (name, log, env) = (format!("s{number}"), Arc::clone(log), env.clone());
        let id = name.clone();
        let child = move |mandate: Mandate| {
            let (name, log, env) = (name.clone(), Arc::clone(&log), env.clone());
            async move {
                log.lock().push((name.clone(), node, true, env.now()));
                mandate.cancelled().await;
                log.lock().push((name, node, false, env.now()));
            }
        };
        cluster.singleton(&id, child).spread().start().unwrap()
    };
    (0..COUNT).map(start).collect()
}

/// The ends and starts of 50 planned moves, each with a store of its own, as in two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gap_at_a_planned_move() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", directory.path().join("store.db").display());
    let (env, log) = (Env::system(), Log::default());
    let join = async |node: &'static str| {
        let store = Arc::new(SqliteStore::open(&url).await.unwrap());
        let mut settings = Settings::new("c", node).unwrap().with_ttl(Duration::from_secs(3));
        settings.proof_of_death = false;
        let cluster = Cluster::join(store, settings).await.unwrap();
        cluster.placement().set_moves(5);
        cluster
    };
    let first = join("a").await;
    let mut all = spread(&first, "a", &log, &env);
    for singleton in &all {
        singleton.leads().await;
    }
    let second = join("b").await;
    all.extend(spread(&second, "b", &log, &env));
    let moved = || log.lock().iter().filter(|(_, node, start, _)| *start && *node == "b").count();
    for _ in 0..600 {
        if moved() >= MOVES {
            break;
        }
        env.sleep(Duration::from_millis(100)).await;
    }
    assert!(moved() >= MOVES, "only {} moved", moved());
    let mut gaps = Vec::new();
    let mut ended = std::collections::BTreeMap::new();
    for (name, node, start, at) in log.lock().iter() {
        match (*node, *start) {
            ("a", false) => drop(ended.insert(name.clone(), *at)),
            ("b", true) => gaps.push(*at - ended[name]),
            _ => {}
        }
    }
    gaps.sort();
    let (median, most) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    eprintln!("{} moves on SQLite: from end to start {median:?} in the median, at most {most:?}", gaps.len());
}
