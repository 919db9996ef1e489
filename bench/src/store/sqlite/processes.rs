//! Several processes on one file: how long one waits for its turn, and how soon another is woken.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use rusqlite::Connection;
use tenure_bench::figures::{line, milliseconds, quantile};
use tenure_sqlite::{Location, Settings, SqliteStore};
use tenure_store::{Commit, Env, Key, Range, Store as _, StoreExt as _};

/// The first argument that makes this program a worker.
pub(crate) const WORKER: &str = "--worker";

const PROCESSES: usize = 8;
const CROWD_TIME: Duration = Duration::from_secs(5);
const WAKINGS: usize = 300;

pub(crate) fn measure(dir: &Path) {
    let env = Env::system();
    let mut delays = wakings(dir, &env);
    let median = milliseconds(Duration::from_secs_f64(quantile(&mut delays, 0.5)));
    let worst = milliseconds(Duration::from_secs_f64(quantile(&mut delays, 0.99)));
    line("another process's waking, after the acknowledgement", median, format!("99 of 100 within {worst}"));
    for (what, kind) in [("ours", "crowd"), ("SQLite's busy handler", "bare-crowd")] {
        let told = crowd(dir, kind);
        let longest = told.iter().map(|(_, longest)| *longest).max().unwrap();
        let counts: Vec<u64> = told.iter().map(|(count, _)| *count).collect();
        line(
            &format!("longest wait of any of {PROCESSES} writing processes, {what}"),
            milliseconds(longest),
            format!(
                "{} commits in all, {} to {} each",
                counts.iter().sum::<u64>(),
                counts.iter().min().unwrap(),
                counts.iter().max().unwrap()
            ),
        );
    }
}

/// Eight processes write for a while. Returns how many commits each made and how long it waited at most for one.
fn crowd(dir: &Path, kind: &str) -> Vec<(u64, Duration)> {
    let path = dir.join(format!("{kind}.db"));
    prepare(&path, kind);
    let workers: Vec<Child> = (0..PROCESSES).map(|_| start(kind, &path)).collect();
    workers
        .into_iter()
        .map(|worker| {
            let output = worker.wait_with_output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let mut words = text.split_whitespace().map(|word| word.parse::<u64>().unwrap());
            (words.next().unwrap(), Duration::from_micros(words.next().unwrap()))
        })
        .collect()
}

/// From acknowledgement here to waking there, in seconds.
fn wakings(dir: &Path, env: &Env) -> Vec<f64> {
    let path = dir.join("wakings.db");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = runtime.block_on(SqliteStore::open(&format!("sqlite:{}", path.display()))).unwrap();
    let mut watcher = start("watch", &path);
    let mut lines = BufReader::new(watcher.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let delays = (0..WAKINGS)
        .map(|_| {
            // At rest in between: a waking from sleep is what is asked for.
            runtime.block_on(env.sleep(Duration::from_millis(10)));
            runtime.block_on(store.commit(Commit::new().set(Key::from("k"), "v"))).unwrap();
            let acknowledged = env.now().since_start();
            let woken = Duration::from_nanos(lines.next().unwrap().unwrap().parse().unwrap());
            woken.saturating_sub(acknowledged).as_secs_f64()
        })
        .collect();
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    delays
}

fn start(kind: &str, path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([WORKER, kind]).arg(path).stdout(Stdio::piped()).spawn().unwrap()
}

fn prepare(path: &Path, kind: &str) {
    if kind == "bare-crowd" {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE row (id INTEGER PRIMARY KEY, value BLOB); INSERT INTO row VALUES (1, zeroblob(256));").unwrap();
    }
}

/// What a worker process does.
pub(crate) fn worker(args: &[&str]) {
    let [kind, path] = args else { panic!("a worker is started as: kind path") };
    let path = Path::new(path);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    match *kind {
        "crowd" => {
            let store = runtime.block_on(SqliteStore::open(&format!("sqlite:{}", path.display()))).unwrap();
            write_for_a_while(|| {
                runtime.block_on(store.commit(Commit::new().set(Key::from("k"), vec![0; 256]))).unwrap();
            });
        }
        "bare-crowd" => {
            let connection = Connection::open(path).unwrap();
            connection.pragma_update(None, "synchronous", "FULL").unwrap();
            connection.busy_timeout(Duration::from_secs(60)).unwrap();
            write_for_a_while(|| {
                connection
                    .prepare_cached("UPDATE row SET value = randomblob(256) WHERE id = 1")
                    .unwrap()
                    .execute([])
                    .unwrap();
            });
        }
        "watch" => runtime.block_on(watch(path)),
        other => panic!("there is no worker {other}"),
    }
}

fn write_for_a_while(mut write: impl FnMut()) {
    let env = Env::system();
    let start = env.now();
    let (mut count, mut longest) = (0_u64, Duration::ZERO);
    while env.now() - start < CROWD_TIME {
        let asked = env.now();
        write();
        longest = longest.max(env.now() - asked);
        count += 1;
    }
    println!("{count} {}", longest.as_micros());
}

async fn watch(path: &Path) {
    // The slow re-read is far away, so that only messages wake.
    let settings =
        Settings { reread: Duration::from_secs(3600), ..Settings::new(Location::File(path.into())) };
    let store = SqliteStore::open_with(settings).await.unwrap();
    let env = Env::system();
    let mut watch = store.watch(Range::Key(Key::from("k")));
    println!("watching");
    let mut seen = None;
    loop {
        watch.changed().await;
        let woken = env.now().since_start();
        let found = store.get(&Key::from("k")).await.unwrap().map(|found| found.version);
        if found != seen {
            seen = found;
            println!("{}", woken.as_nanos());
        }
    }
}
