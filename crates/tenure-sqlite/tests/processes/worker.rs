//! What worker processes do.

use std::{io::Read as _, path::PathBuf, process::exit, sync::Arc, time::Duration};

use tenure_sqlite::{Location, Settings, SqliteStore};
use tenure_store::{Check, Commit, CommitError, Env, Key, Range, Store, StoreError, StoreExt as _};

use crate::history;

/// Never due within a test, so that a waking can only come from a message.
const NEVER: Duration = Duration::from_secs(3600);

pub(crate) fn main(args: Vec<String>) {
    let [kind, path, rest @ ..] = &args[..] else { panic!("a worker is started as: kind path ...") };
    let path = PathBuf::from(path);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        match kind.as_str() {
            "hammer" => hammer(&path, &rest[0]).await,
            "crowd" => crowd(&path).await,
            "open" => open_once(&path, &rest[0]).await,
            "watch" => watch(&path, rest[0].parse().unwrap()).await,
            "commit" => commit_untold(&path).await,
            "idle" => idle(&path).await,
            "fill" => fill(&path).await,
            "flush" => flush(&path).await,
            "try" => try_to_open(&path).await,
            other => panic!("there is no worker {other}"),
        }
    });
}

/// Ends the process when the test closes our standard input.
fn end_with_the_test() {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        exit(0);
    });
}

async fn open(path: &std::path::Path, reread: Duration) -> Arc<SqliteStore> {
    let settings = Settings { reread, ..Settings::new(Location::File(path.into())) };
    Arc::new(SqliteStore::open_with(settings).await.unwrap())
}

/// Commits as fast as it can from two tasks, and says what was acknowledged.
async fn hammer(path: &std::path::Path, name: &str) {
    end_with_the_test();
    let store = open(path, NEVER).await;
    println!("open");
    let tasks = ["a", "b"].map(|task| {
        let (store, sender) = (Arc::clone(&store), format!("{name}{task}"));
        tokio::spawn(async move { hammer_task(&store, &sender).await })
    });
    for task in tasks {
        task.await.unwrap();
    }
}

async fn hammer_task(store: &SqliteStore, sender: &str) {
    let env = Env::system();
    for number in 0_u64.. {
        // Mostly a counter of one's own; now and then one that everybody fights for.
        let counter = if number % 8 == 0 { history::shared() } else { history::own(sender) };
        loop {
            let found = store.get(&counter).await.unwrap();
            let count = found.as_ref().map_or(0, |found| history::to_count(&found.value));
            let check = match &found {
                Some(found) => Check::Version(counter.clone(), found.version),
                None => Check::Absent(counter.clone()),
            };
            let entry = format!("{sender} {number} {counter}");
            let commit = Commit::new()
                .check(check)
                .set(counter.clone(), history::from_count(count + 1))
                .append(history::log(), entry.clone().into_bytes());
            let submitted = env.now().since_start().as_nanos();
            match store.commit(commit).await {
                Ok(_) => {
                    println!("{submitted} {} {entry}", env.now().since_start().as_nanos());
                    break;
                }
                // While another process is stopped in the middle of its turn, nobody can write.
                Err(CommitError::Conflict(_) | CommitError::Failed(StoreError::Unavailable(_))) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Commits without a pause for a while, and says how often.
async fn crowd(path: &std::path::Path) {
    let store = open(path, NEVER).await;
    println!("open");
    std::io::stdin().read_exact(&mut [0]).unwrap();
    let env = Env::system();
    let start = env.now();
    let mut commits = 0;
    while env.now() - start < Duration::from_secs(4) {
        commits += u32::from(store.commit(Commit::new().set(Key::from("k"), vec![0; 256])).await.is_ok());
    }
    println!("{commits}");
}

/// Opens a store that may not exist yet and makes one commit.
async fn open_once(path: &std::path::Path, name: &str) {
    let store = open(path, NEVER).await;
    store.commit(Commit::new().set(Key::from(name), name.to_owned().into_bytes())).await.unwrap();
    println!("done");
}

/// Says when it was woken.
async fn watch(path: &std::path::Path, reread_ms: u64) {
    end_with_the_test();
    let store = open(path, Duration::from_millis(reread_ms)).await;
    let mut watch = store.watch(Range::Prefix(Key::from("watched/")));
    println!("watching");
    let mut seen = 0;
    loop {
        watch.changed().await;
        let count = store
            .get(&Key::from("watched/k"))
            .await
            .unwrap()
            .map_or(0, |found| history::to_count(&found.value));
        if count > seen {
            seen = count;
            println!("{count}");
        }
    }
}

/// Commits as a process would that is killed before it could tell the others: past our own code, straight in SQL.
async fn commit_untold(path: &std::path::Path) {
    drop(open(path, NEVER).await);
    let connection = rusqlite::Connection::open(path).unwrap();
    let version: i64 =
        connection.query_row("SELECT max(version) + 1 FROM changes", [], |row| row.get(0)).unwrap();
    let value = history::from_count(1);
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection.execute("INSERT INTO kv VALUES (?1, ?2, ?3)", (b"watched/k", version, &value[..])).unwrap();
    connection.execute("INSERT INTO changes VALUES (?1, 1, NULL)", [version]).unwrap();
    connection.execute_batch("COMMIT").unwrap();
    println!("done");
}

/// Has many watches and nothing to do; says how much processor time that took.
async fn idle(path: &std::path::Path) {
    let settings = Settings::new(Location::File(path.into()));
    let store = SqliteStore::open_with(settings).await.unwrap();
    let _watches: Vec<_> =
        (0..10_000).map(|n| store.watch(Range::Key(Key::from(format!("k{n}").as_str())))).collect();
    let env = Env::system();
    env.sleep(Duration::from_millis(500)).await;
    let before = processor_ms();
    env.sleep(Duration::from_secs(4)).await;
    println!("{}", processor_ms() - before);
}

fn processor_ms() -> i64 {
    use nix::sys::{
        resource::{UsageWho, getrusage},
        time::TimeValLike as _,
    };
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds()
}

/// Fills the disk, and says how far it got and whether all of that is there.
async fn fill(path: &std::path::Path) {
    let store = open(path, NEVER).await;
    let key = |n: u32| Key::from(format!("k{n:06}").as_str());
    let mut stored = 0;
    let error = loop {
        match store.commit(Commit::new().set(key(stored), vec![1; 20_000])).await {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 1000, "more than the disk may hold");
    };
    println!("{error}");
    store.close();
    drop(store);
    let store = open(path, NEVER).await;
    let mut found = 0;
    while store.get(&key(found)).await.unwrap().is_some_and(|found| found.value.len() == 20_000) {
        found += 1;
    }
    println!("stored {stored} found {found}");
}

/// Appends until it is refused, and once more; says what was acknowledged and what it was told.
async fn flush(path: &std::path::Path) {
    let store = open(path, NEVER).await;
    let append = |n: u32| store.commit(Commit::new().append(history::log(), n.to_string()));
    let mut n = 0;
    let error = loop {
        match append(n).await {
            Ok(_) => println!("{n}"),
            Err(error) => break error,
        }
        n += 1;
    };
    println!("{error}");
    println!("{}", append(n + 1).await.unwrap_err());
}

/// Says what opening the store gives.
async fn try_to_open(path: &std::path::Path) {
    match SqliteStore::open_with(Settings::new(Location::File(path.into()))).await {
        Ok(_) => println!("opened"),
        Err(error) => println!("{error}"),
    }
}
