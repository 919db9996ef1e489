//! What a store does with the files it finds, and with those it makes.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::Connection;
use tenure_sqlite::{Location, Settings, SqliteStore};
use tenure_store::{
    Check, Commit, CommitError, Conflict, EntryId, Env, Key, Range, Read, Store, StoreError, StoreExt,
};

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

    fn settings(&self) -> Settings {
        Settings::new(Location::File(self.path()))
    }

    async fn open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open_with(self.settings()).await
    }

    /// A closed store that holds `k`.
    async fn with_a_key(self) -> Self {
        let store = self.open().await.unwrap();
        store.commit(set("k")).await.unwrap();
        store.close();
        self
    }

    fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

fn key(text: &str) -> Key {
    Key::from(text)
}

fn set(text: &str) -> Commit {
    Commit::new().set(key(text), "v")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn what_is_acknowledged_is_there_after_reopening() {
    let place = Place::new().with_a_key().await;
    let store = place.open().await.unwrap();
    assert_eq!(store.get(&key("k")).await.unwrap().unwrap().value, "v");
}

#[tokio::test]
async fn files_are_for_their_owner_only() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    store.commit(set("k")).await.unwrap();
    let files: Vec<PathBuf> =
        fs::read_dir(place.dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn commits_are_flushed_to_a_write_ahead_log() {
    let place = Place::new().with_a_key().await;
    let mode: String = place.connect().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let place = Place::new().with_a_key().await;
    place.connect().pragma_update(None, "user_version", 7).unwrap();
    let before = fs::read(place.path()).unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("schema 7") && error.to_string().contains("newer release"), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_database_of_another_application_is_refused_and_left_alone() {
    let place = Place::new();
    place.connect().execute_batch("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);").unwrap();
    let before = fs::read(place.path()).unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("another application"), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    let letter = "Dear reader, ".repeat(500);
    fs::write(place.path(), &letter).unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("not a SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(place.path()).unwrap(), letter);
}

#[tokio::test]
async fn a_damaged_file_is_corrupt_and_left_alone() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    for n in 0..200 {
        store.commit(Commit::new().set(key(&format!("k{n}")), vec![7; 4000])).await.unwrap();
    }
    store.close();
    drop(store);
    place.connect().execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let mut bytes = fs::read(place.path()).unwrap();
    // Everything behind the first page, which says that it is a database of ours.
    bytes[4096..].fill(0xA5);
    fs::write(place.path(), &bytes).unwrap();

    let error = match place.open().await {
        Err(error) => error,
        Ok(store) => store.get(&key("k7")).await.unwrap_err(),
    };
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), bytes);
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let place = Place::new();
    let path = place.dir.path().join("not/there.db");
    let error = SqliteStore::open(&format!("sqlite:{}", path.display())).await.unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(_)), "{error}");
    assert!(
        error.to_string().contains("not/there.db") && error.to_string().contains("create the directory"),
        "{error}"
    );
}

#[tokio::test]
async fn a_store_interrupted_in_the_making_is_made_by_the_next() {
    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    drop(place.open().await.unwrap());
    let place = Place::new();
    place.connect().pragma_update(None, "journal_mode", "WAL").unwrap();
    place.open().await.unwrap().commit(set("k")).await.unwrap();
}

#[tokio::test]
async fn a_full_store_refuses_and_loses_nothing() {
    let place = Place::new();
    let settings = Settings { max_bytes: Some(256 * 1024), ..place.settings() };
    let store = SqliteStore::open_with(settings).await.unwrap();
    let mut stored = Vec::new();
    let error = loop {
        let next = key(&format!("k{}", stored.len()));
        match store.commit(Commit::new().set(next.clone(), vec![1; 10_000])).await {
            Ok(_) => stored.push(next),
            Err(error) => break error,
        }
        assert!(stored.len() < 100, "more than the file may hold");
    };
    assert!(matches!(error, CommitError::Failed(StoreError::Full(_))), "{error}");
    assert!(stored.len() > 10);
    for key in &stored {
        assert_eq!(store.get(key).await.unwrap().unwrap().value.len(), 10_000);
    }
    // Room made is room used.
    store.commit(Commit::new().delete(stored[0].clone()).delete(stored[1].clone())).await.unwrap();
    store.commit(Commit::new().set(key("again"), vec![1; 10_000])).await.unwrap();
}

#[tokio::test]
async fn one_commit_too_many_does_not_fail_its_neighbours() {
    let place = Place::new();
    let settings = Settings { max_bytes: Some(256 * 1024), ..place.settings() };
    let store = Arc::new(SqliteStore::open_with(settings).await.unwrap());
    // While somebody else writes, ours gather into one group.
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commit = |name: &str, bytes: usize| {
        let (store, commit) = (Arc::clone(&store), Commit::new().set(key(name), vec![1; bytes]));
        tokio::spawn(async move { store.commit(commit).await })
    };
    let (small, huge, also_small) = (commit("a", 10), commit("b", 900_000), commit("c", 10));
    tokio::task::yield_now().await;
    other.execute_batch("ROLLBACK").unwrap();
    small.await.unwrap().unwrap();
    also_small.await.unwrap().unwrap();
    let error = huge.await.unwrap().unwrap_err();
    assert!(matches!(error, CommitError::Failed(StoreError::Full(_))), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_commits_share_a_flush_and_each_has_its_own_answer() {
    let place = Place::new();
    let store = Arc::new(place.open().await.unwrap());
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let commits: Vec<_> = (0..100)
        .map(|n| {
            let store = Arc::clone(&store);
            // All want to be the one that creates `k`; every second is happy with a key of its own.
            let target = if n % 2 == 0 { key("k") } else { key(&format!("own {n}")) };
            let commit = Commit::new().check(Check::Absent(target.clone())).set(target, "v");
            tokio::spawn(async move { store.commit(commit).await })
        })
        .collect();
    Env::system().sleep(Duration::from_millis(100)).await;
    other.execute_batch("ROLLBACK").unwrap();
    let mut made = 0;
    for (n, commit) in commits.into_iter().enumerate() {
        match commit.await.unwrap() {
            Ok(_) => made += 1,
            Err(CommitError::Conflict(Conflict::Check { index: 0, .. })) if n % 2 == 0 => {}
            Err(error) => panic!("{n}: {error}"),
        }
    }
    assert_eq!(made, 51, "one k, and fifty of their own");
    let stats = store.stats();
    assert_eq!(stats.commits, 51);
    assert!(stats.transactions <= 10, "{stats:?}");
}

#[tokio::test]
async fn reads_do_not_wait_for_a_writer_and_commits_wait_only_so_long() {
    let place = Place::new().with_a_key().await;
    let settings = Settings { busy_wait: Duration::from_millis(50), ..place.settings() };
    let store = SqliteStore::open_with(settings).await.unwrap();
    let other = place.connect();
    other.execute_batch("BEGIN IMMEDIATE; DELETE FROM kv").unwrap();
    assert!(store.get(&key("k")).await.unwrap().is_some());
    let error = store.commit(set("l")).await.unwrap_err();
    assert!(matches!(&error, CommitError::Failed(StoreError::Unavailable(_))), "{error}");
    assert!(error.to_string().contains("another process"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(store.get(&key("l")).await.unwrap().is_none());
    store.commit(set("l")).await.unwrap();
}

#[tokio::test]
async fn a_file_that_lost_its_journal_mode_gets_it_back() {
    let place = Place::new().with_a_key().await;
    let other = place.connect();
    other.pragma_update(None, "journal_mode", "DELETE").unwrap();
    drop(other);
    let store = place.open().await.unwrap();
    let mode: String = place.connect().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
    assert!(store.get(&key("k")).await.unwrap().is_some());
}

#[tokio::test]
async fn whoever_comes_by_a_link_meets_the_others() {
    let place = Place::new();
    let settings = Settings { reread: Duration::from_secs(3600), ..place.settings() };
    let watcher = SqliteStore::open_with(settings).await.unwrap();
    let link = place.dir.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let store = SqliteStore::open(&format!("sqlite:{}", link.display())).await.unwrap();
    let mut watch = watcher.watch(Range::Key(key("k")));
    store.commit(set("k")).await.unwrap();
    Env::system().timeout(Duration::from_secs(20), watch.changed()).await.expect("it is woken by a message");
    assert!(!place.dir.path().join("link.db-turn").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_commits_in_memory_wait_for_each_other_and_never_fail() {
    let settings = Settings { busy_wait: Duration::ZERO, ..Settings::new(Location::Memory) };
    let store = Arc::new(SqliteStore::open_with(settings).await.unwrap());
    let fill = (0..300).fold(Commit::new(), |commit, n| commit.set(key(&format!("k{n}")), vec![1; 10_000]));
    store.commit(fill).await.unwrap();
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..50 {
                    assert_eq!(store.scan(&Range::Prefix(key("k")), 1000).await.unwrap().items.len(), 300);
                }
            })
        })
        .collect();
    for n in 0..300 {
        store.commit(set(&format!("k{n}"))).await.unwrap();
    }
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn the_log_stays_short_though_reads_overlap() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    store.commit(set("k")).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers = [0, 1, 2].map(|_| {
        let (connection, done) = (place.connect(), Arc::clone(&done));
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                connection.execute_batch("BEGIN; SELECT count(*) FROM kv").unwrap();
                std::thread::sleep(Duration::from_millis(5));
                connection.execute_batch("COMMIT").unwrap();
            }
        })
    });
    for _ in 0..5000 {
        store.commit(Commit::new().set(key("k"), vec![1; 20_000])).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.join().unwrap();
    }
    let log = fs::metadata(place.dir.path().join("store.db-wal")).unwrap().len();
    assert!(log < 30_000_000, "the log has {log} bytes");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    store.close();
    assert!(matches!(store.commit(set("k")).await, Err(CommitError::Failed(StoreError::Closed(_)))));
    assert!(matches!(store.get(&key("k")).await, Err(StoreError::Closed(_))));
}

#[tokio::test]
async fn an_entry_id_of_another_store_is_refused() {
    let store = SqliteStore::open("sqlite::memory:").await.unwrap();
    let after = Some(EntryId::new(vec![1, 2, 3]));
    let error = store.read(vec![Read::List { list: key("l"), after, limit: 1 }]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Invalid(_)), "{error}");
    assert!(error.to_string().contains("EntryId(010203)"), "{error}");
}

#[tokio::test]
async fn stores_in_memory_are_apart() {
    let (one, two) = (
        SqliteStore::open("sqlite::memory:").await.unwrap(),
        SqliteStore::open("sqlite::memory:").await.unwrap(),
    );
    one.commit(set("k")).await.unwrap();
    assert!(two.get(&key("k")).await.unwrap().is_none());
    assert!(one.get(&key("k")).await.unwrap().is_some());
}

#[tokio::test]
async fn the_log_of_changes_stays_short() {
    let place = Place::new();
    let store = place.open().await.unwrap();
    for _ in 0..30 {
        let commits = (0..250).map(|_| store.commit(set("k")));
        for commit in commits {
            commit.await.unwrap();
        }
    }
    let rows: i64 = place.connect().query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).unwrap();
    assert!(rows <= 4096 + 1024, "{rows}");
}

#[tokio::test]
async fn a_watch_that_missed_more_than_the_log_holds_still_wakes() {
    let place = Place::new();
    let settings = Settings { reread: Duration::from_secs(3600), ..place.settings() };
    let watcher = SqliteStore::open_with(settings).await.unwrap();
    // Nobody has watched so far, so the watcher's last look was at its opening.
    let store = place.open().await.unwrap();
    for _ in 0..6000 {
        store.commit(set("k")).await.unwrap();
    }
    let mut watch = watcher.watch(Range::Key(key("x")));
    Env::system()
        .timeout(Duration::from_secs(20), watch.changed())
        .await
        .expect("it is woken for what it may have missed");
    store.commit(set("x")).await.unwrap();
    Env::system().timeout(Duration::from_secs(20), watch.changed()).await.expect("and for what comes");
}

#[tokio::test]
async fn watches_work_where_the_kernel_gives_no_messages() {
    use nix::sys::inotify::{InitFlags, Inotify};

    let place = Place::new();
    let taken: Vec<Inotify> =
        std::iter::from_fn(|| Inotify::init(InitFlags::IN_CLOEXEC).ok()).take(100_000).collect();
    let settings = Settings { reread: Duration::from_secs(3600), ..place.settings() };
    let watcher = SqliteStore::open_with(settings).await.unwrap();
    drop(taken);
    let store = place.open().await.unwrap();
    let mut watch = watcher.watch(Range::Key(key("k")));
    store.commit(set("k")).await.unwrap();
    Env::system().timeout(Duration::from_secs(20), watch.changed()).await.expect("it is woken by looking");
}
