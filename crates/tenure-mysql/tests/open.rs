//! Opening a store: by many at once, with few rights, on strange servers, and with what can't work.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod databases;

use std::sync::Arc;

use databases::{Database, connect, execute, server};
use mysql_async::prelude::Queryable as _;
use tenure_mysql::{MysqlStore, ddl};
use tenure_store::{
    Check, Commit, CommitError, Conflict, Env, Key, Retry, Store, StoreExt as _, testkit::Handles,
};
use tenure_testbed::{MariaDb, Options};

fn key(text: &str) -> Key {
    Key::from(text)
}

/// As many stores as this are opened at once.
const CROWD: usize = 20;

/// Makes a commit. A node of a cluster may give way to another: then nothing was done, and it is made again, as by whoever uses a store.
async fn make(store: &MysqlStore, commit: Commit) {
    let mut pauses = Retry::default().start(&Env::system());
    while let Err(error) = store.commit(commit.clone()).await {
        let gave_way = matches!(error, CommitError::Conflict(Conflict::Contention));
        assert!(gave_way && pauses.pause().await, "{commit:?}: {error}");
    }
}

async fn all_can_open_at_once(urls: &[String]) {
    let database = Database::create(urls).await;
    let opening: Vec<_> = (0..CROWD)
        .map(|index| {
            let url = database.url(index);
            tokio::spawn(async move { MysqlStore::open(&url).await.unwrap() })
        })
        .collect();
    let mut stores = Vec::new();
    for task in opening {
        stores.push(task.await.unwrap());
    }
    for (index, store) in stores.iter().enumerate() {
        let name = Key::from(format!("k{index}").as_str());
        make(store, Commit::new().check(Check::Absent(name.clone())).set(name, "v")).await;
    }
    assert_eq!(stores[0].scan(&tenure_store::Range::all(), 100).await.unwrap().items.len(), CROWD);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_opens_an_empty_database_at_once() {
    all_can_open_at_once(&[tenure_testbed::mariadb()]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_opens_an_empty_cluster_at_once() {
    all_can_open_at_once(&tenure_testbed::galera()).await;
}

/// A user without any right, on the shared server; its URL and its name in statements.
async fn user(database: &Database) -> (String, String) {
    let url = tenure_testbed::mariadb();
    let name = format!("u{:08x}", Env::system().random_u64() >> 32);
    execute(&url, &format!("CREATE USER {name}@'%' IDENTIFIED BY 'secret'")).await;
    let (_, host) = server(&url).rsplit_once('@').unwrap();
    (format!("mysql://{name}:secret@{host}/{}", database.name()), format!("{name}@'%'"))
}

#[tokio::test]
async fn a_role_that_may_create_nothing_uses_what_is_there() {
    let admin = tenure_testbed::mariadb();
    let database = Database::create(std::slice::from_ref(&admin)).await;
    let (url, user) = user(&database).await;
    let rights = "SELECT, INSERT, UPDATE, DELETE, EXECUTE";
    execute(&admin, &format!("GRANT {rights} ON {}.* TO {user}", database.name())).await;

    let error = MysqlStore::open(&url).await.unwrap_err();
    assert!(error.kind() == "invalid" && error.to_string().contains("CREATE ROUTINE"), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");

    drop(MysqlStore::open(&database.url(0)).await.unwrap());
    let store = MysqlStore::open(&url).await.unwrap();
    store.commit(Commit::new().set(key("k"), "v").append(key("l"), "e")).await.unwrap();
    assert_eq!(store.get(&key("k")).await.unwrap().unwrap().value, "v");
    execute(&admin, &format!("DROP USER {user}")).await;
}

#[tokio::test]
async fn the_printed_statements_make_the_tables() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let mut conn = connect(&database.url(0)).await;
    // As the `mysql` program reads the script.
    let script = ddl("other_").unwrap();
    let (tables, rest) = script.split_once("DELIMITER //").unwrap();
    let (procedures, mark) = rest.split_once("DELIMITER ;").unwrap();
    let statements = tables.split(";\n").chain(procedures.split("//")).chain([mark.trim_end_matches(";\n")]);
    for statement in statements.map(str::trim).filter(|statement| !statement.is_empty()) {
        conn.query_drop(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    let (url, user) = user(&database).await;
    let admin = tenure_testbed::mariadb();
    execute(
        &admin,
        &format!("GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {}.* TO {user}", database.name()),
    )
    .await;
    let store = MysqlStore::open(&format!("{url}?prefix=other_")).await.unwrap();
    store.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    assert!(ddl("bad prefix").is_err());
    execute(&admin, &format!("DROP USER {user}")).await;
}

#[tokio::test]
async fn prefixes_keep_stores_apart() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let one = MysqlStore::open(&database.url(0)).await.unwrap();
    let other = MysqlStore::open(&format!("{}?prefix=b_", database.url(0))).await.unwrap();
    one.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    assert_eq!(other.get(&key("k")).await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_work_is_told_in_one_clear_message() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let (url, user) = user(&database).await;
    let host = url.rsplit_once('@').unwrap().1.split_once('/').unwrap().0.to_owned();
    let cases = [
        (url.replace(":secret@", ":wrong5ecret@"), "invalid", "password"),
        (url.clone(), "invalid", "grant the user"),
        (format!("mysql://root@{host}/no_such_database"), "invalid", "create it"),
        (format!("mysql://root@{host}/{}?tls=require", database.name()), "unavailable", "tls=disable"),
        ("mysql://root:wrong5ecret@127.0.0.1:1/d".into(), "unavailable", "127.0.0.1:1"),
        ("mysql://root:wrong5ecret@no-such-host.invalid/d".into(), "unavailable", "no-such-host"),
    ];
    for (url, kind, words) in cases {
        let error = MysqlStore::open(&url).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.kind() == kind && text.contains(words), "{text}");
        assert!(!text.contains("wrong5ecret") && !text.contains("secret@"), "{text}");
    }
    execute(&tenure_testbed::mariadb(), &format!("DROP USER {user}")).await;
}

#[tokio::test]
async fn the_password_is_not_printed() {
    let server =
        MariaDb::start_with(&Options { password: Some("h1dden".into()), ..Options::default() }).unwrap();
    let store = MysqlStore::open(&server.url()).await.unwrap();
    assert!(!format!("{store} {store:?}").contains("h1dden"));
    assert!(store.to_string().starts_with("mysql://tenure@127.0.0.1:"), "{store}");
}

#[tokio::test]
async fn tables_of_another_release_are_refused() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    drop(MysqlStore::open(&database.url(0)).await.unwrap());
    execute(&database.url(0), "UPDATE tenure_meta SET fact = '7' WHERE name = 'schema'").await;
    let error = MysqlStore::open(&database.url(0)).await.unwrap_err();
    assert!(error.kind() == "invalid" && error.to_string().contains("version 7"), "{error}");
}

#[tokio::test]
async fn missing_rows_are_corruption_and_nothing_is_written() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let store = MysqlStore::open(&database.url(0)).await.unwrap();
    store.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    for table in ["tenure_slots", "tenure_desks"] {
        execute(&database.url(0), &format!("DELETE FROM {table}")).await;
        let error = store.commit(Commit::new().set(key("k"), "w")).await.unwrap_err();
        assert!(error.kind() == "corrupt" && error.to_string().contains("is missing"), "{error}");
    }
    assert_eq!(store.get(&key("k")).await.unwrap().unwrap().value, "v");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let store = MysqlStore::open(&database.url(0)).await.unwrap();
    store.close();
    assert_eq!(store.get(&key("k")).await.unwrap_err().kind(), "closed");
    assert_eq!(store.commit(Commit::new().set(key("k"), "v")).await.unwrap_err().kind(), "closed");
}

#[tokio::test]
async fn servers_that_may_lose_commits_or_take_none_are_refused() {
    let server = MariaDb::start().unwrap();
    let url = server.url();
    execute(&url, "SET GLOBAL innodb_flush_log_at_trx_commit = 2").await;
    let error = MysqlStore::open(&url).await.unwrap_err();
    assert!(error.kind() == "invalid" && error.to_string().contains("durability=relax"), "{error}");
    drop(MysqlStore::open(&format!("{url}?durability=relax")).await.unwrap());
    execute(&url, "SET GLOBAL innodb_flush_log_at_trx_commit = 1").await;

    let store = MysqlStore::open(&url).await.unwrap();
    execute(&url, "SET GLOBAL max_allowed_packet = 1048576").await;
    let error = MysqlStore::open(&url).await.unwrap_err();
    assert!(error.to_string().contains("max_allowed_packet is 1048576"), "{error}");
    execute(&url, "SET GLOBAL max_allowed_packet = 4194304").await;
    let small = MysqlStore::open(&url).await.unwrap();
    assert_eq!(small.limits(), tenure_store::Limits::PORTABLE);
    let value = vec![7; small.limits().value_bytes];
    let full = (0..3).fold(Commit::new(), |all, at| all.set(Key::from(vec![at]), value.clone()));
    small.commit(full).await.unwrap();

    execute(&url, "SET GLOBAL read_only = 1").await;
    let error = MysqlStore::open(&url).await.unwrap_err();
    assert!(error.kind() == "unavailable" && error.to_string().contains("read-only"), "{error}");
    // Root may write all the same, but nobody else could: it is the next connection that is refused.
    assert!(store.commit(Commit::new().set(key("k"), "v")).await.is_ok());
}

#[tokio::test]
async fn tls_is_used_and_verified() {
    let server = MariaDb::start_with(&Options { tls: true, ..Options::default() }).unwrap();
    // Only encrypted connections from now on.
    let url = server.url();
    let mut conn = connect(&url).await;
    conn.query_drop("SET GLOBAL require_secure_transport = 1").await.unwrap();
    let ca = server.ca().display().to_string();
    for options in ["tls=prefer", "tls=require", &format!("tls=verify&tls_ca={ca}")] {
        let store = MysqlStore::open(&format!("{url}?{options}")).await.unwrap();
        store.commit(Commit::new().set(key("k"), "v")).await.unwrap();
    }
    MysqlStore::open(&format!("{url}?tls=disable")).await.unwrap_err();
    // No authority that the system trusts has signed the certificate.
    let error = MysqlStore::open(&format!("{url}?tls=verify")).await.unwrap_err();
    assert!(error.to_string().contains("certificate"), "{error}");
    let error = MysqlStore::open(&format!("{url}?tls=verify&tls_ca=/dev/null")).await.unwrap_err();
    assert!(error.to_string().contains("tls_ca is /dev/null"), "{error}");
}

/// A server on which everything that can be set for all is set against us. The cases about bytes pass all the same.
mod hostile {
    use std::sync::OnceLock;

    use super::*;

    const SETTINGS: &[(&str, &str)] = &[
        (
            "sql-mode",
            "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,IGNORE_SPACE,NO_UNSIGNED_SUBTRACTION",
        ),
        ("character-set-server", "ucs2"),
        ("collation-server", "ucs2_general_ci"),
        ("default-time-zone", "+11:00"),
        ("transaction-isolation", "SERIALIZABLE"),
        ("autocommit", "0"),
        ("completion-type", "2"),
        ("innodb-lock-wait-timeout", "1"),
        ("innodb-default-row-format", "compact"),
        ("default-storage-engine", "MyISAM"),
        ("lower-case-table-names", "1"),
        ("max-sort-length", "64"),
        ("skip-character-set-client-handshake", "1"),
    ];

    async fn open(count: usize) -> Handles {
        static SERVER: OnceLock<MariaDb> = OnceLock::new();
        let server = SERVER.get_or_init(|| {
            let settings =
                SETTINGS.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
            MariaDb::start_with(&Options { settings, ..Options::default() }).unwrap()
        });
        Database::create(&[server.url()]).await.handles(count).await
    }

    #[test]
    fn bytes_are_bytes() {
        let cases = tenure_store::testkit::CASES
            .iter()
            .filter(|case| ["bytes", "lists", "ranges", "versions"].contains(&case.group));
        for case in cases {
            tenure_store::testkit::run(case.group, case.name, open);
        }
    }
}

#[tokio::test]
async fn a_store_serves_many_tasks_with_few_connections() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let url = format!("{}?connections=2&readers=1", database.url(0));
    let store = Arc::new(MysqlStore::open(&url).await.unwrap());
    let tasks: Vec<_> = (0..200)
        .map(|task| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let name = Key::from(format!("k{task}").as_str());
                store.commit(Commit::new().set(name.clone(), "v")).await.unwrap();
                assert!(store.get(&name).await.unwrap().is_some());
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let mut conn = connect(&database.url(0)).await;
    let query =
        format!("SELECT COUNT(*) FROM information_schema.processlist WHERE db = '{}'", database.name());
    let connections: u64 = conn.query_first(query).await.unwrap().unwrap();
    assert!(connections <= 2 + 1 + 1, "{connections} connections, one of them this test's");
}

/// InnoDB shows a commit shortly before it is on disk. Should a crash take it back, its version must not come again.
#[tokio::test]
async fn versions_of_different_connections_are_never_the_same() {
    let database = Database::create(&[tenure_testbed::mariadb()]).await;
    let mut sessions = std::collections::HashSet::new();
    for _ in 0..4 {
        let store = MysqlStore::open(&database.url(0)).await.unwrap();
        let receipt = store.commit(Commit::new().set(key("k"), "v").append(key("l"), "e")).await.unwrap();
        assert!(sessions.insert(receipt.version.0 & 0xFFFF), "{receipt:?}");
        let entries = store.entries(&key("l"), 10).await.unwrap().items;
        let id = entries.last().unwrap().id.as_bytes();
        assert_eq!(id[..8], receipt.version.0.to_be_bytes(), "an id starts with its version");
    }
}
