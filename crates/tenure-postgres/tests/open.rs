//! Opening a store: whose rights it needs, and what it says when it can't be opened.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

use tenure_postgres::{PostgresStore, ddl};
use tenure_store::{Commit, Key, Range, Store, StoreError, StoreExt as _};
use tenure_testbed::{Options, Postgres};

mod schemas;

/// A name for this run that no other has.
fn name(what: &str) -> String {
    format!("{what}_{}", std::process::id())
}

/// The URL of another user and database on the same server.
fn url_of(user: &str, database: &str) -> String {
    let url = tenure_testbed::postgres();
    let (_, host) = url.split_once('@').unwrap();
    format!("postgres://{user}@{}/{database}", host.split_once('/').unwrap().0)
}

async fn run(statements: &str) {
    schemas::connect(&tenure_testbed::postgres()).await.batch_execute(statements).await.unwrap();
}

async fn refused(url: &str) -> (StoreError, String) {
    let error = PostgresStore::open(url).await.unwrap_err();
    let words = error.to_string();
    (error, words)
}

async fn use_store(url: &str) {
    let store = PostgresStore::open(url).await.unwrap();
    let other = PostgresStore::open(url).await.unwrap();
    let key = Key::from("k");
    let mut watch = other.watch(Range::Key(key.clone()));
    watch.changed().await;
    store.commit(Commit::new().set(key.clone(), "v").append(key.clone(), "e")).await.unwrap();
    while other.get(&key).await.unwrap().is_none() {
        watch.changed().await;
    }
    let entry = other.entries(&key, 1).await.unwrap().items.remove(0);
    other.commit(Commit::new().remove(key, entry.id).delete_range(Range::Prefix("z".into()))).await.unwrap();
}

#[tokio::test]
async fn a_role_that_may_only_use_what_is_there_can_open() {
    let (role, schema) = (name("user_only"), name("s_user_only"));
    run(&format!("CREATE ROLE {role} LOGIN")).await;
    run(&ddl(&schema).unwrap()).await;
    let url = format!("{}?schema={schema}", url_of(&role, "postgres"));
    let (error, words) = refused(&url).await;
    assert!(
        matches!(error, StoreError::Invalid(_)) && words.contains(&role) && words.contains("rights"),
        "{words}"
    );
    // The rights that stand at the end of the DDL.
    let ddl = ddl(&schema).unwrap();
    let grants: Vec<String> = ddl
        .lines()
        .filter_map(|line| line.strip_prefix("--   "))
        .map(|grant| grant.replace("TO role", &format!("TO {role}")))
        .collect();
    assert_eq!(grants.len(), 5);
    run(&grants.join("\n")).await;
    use_store(&url).await;
    run(&format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_role_that_may_not_create_is_told_what_to_do() {
    let (role, schema) = (name("nobody"), name("s_nobody"));
    run(&format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO {role}"
    ))
    .await;
    for url in [
        format!("{}?schema={schema}", url_of(&role, "postgres")),
        format!("{}?schema={}", url_of(&role, "postgres"), name("s_none")),
    ] {
        let (error, words) = refused(&url).await;
        assert!(matches!(error, StoreError::Invalid(_)) && words.contains("DDL"), "{words}");
    }
    // In a schema of its own it may.
    run(&format!("ALTER SCHEMA {schema} OWNER TO {role}")).await;
    use_store(&format!("{}?schema={schema}", url_of(&role, "postgres"))).await;
    run(&format!("DROP SCHEMA {schema} CASCADE; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn schemas_are_stores_of_their_own() {
    let one = schemas::Schema::new(&tenure_testbed::postgres(), &name("s_one"));
    let two = schemas::Schema::new(&tenure_testbed::postgres(), &name("s_two"));
    let (first, second) =
        (PostgresStore::open(&one.url("")).await.unwrap(), PostgresStore::open(&two.url("")).await.unwrap());
    first.commit(Commit::new().set(Key::from("k"), "v")).await.unwrap();
    assert_eq!(second.get(&Key::from("k")).await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_reached_is_named() {
    let (error, words) = refused("postgres://al:secret@127.0.0.1:1/d").await;
    assert!(matches!(error, StoreError::Unavailable(_)) && words.contains("127.0.0.1:1"), "{words}");
    assert!(!words.contains("secret"), "{words}");
    let (error, words) = refused("postgres://al@no-such-host.invalid/d").await;
    assert!(matches!(error, StoreError::Unavailable(_)) && words.contains("no-such-host.invalid"), "{words}");
    let (error, words) = refused(&url_of("postgres", "no_such_database")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("no_such_database"), "{words}");
    let (error, words) = refused(&url_of("no_such_role", "postgres")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("no_such_role"), "{words}");
}

#[tokio::test]
async fn settings_that_would_break_the_contract_are_refused() {
    let role = name("picky");
    run(&format!("CREATE ROLE {role} LOGIN SUPERUSER")).await;
    let url = format!("{}?schema={}", url_of(&role, "postgres"), name("s_picky"));
    for (setting, value, word) in [
        ("default_transaction_isolation", "serializable", "read committed"),
        ("default_transaction_isolation", "repeatable read", "read committed"),
        ("default_transaction_read_only", "on", "read-only"),
    ] {
        run(&format!("ALTER ROLE {role} SET {setting} = '{value}'")).await;
        let (_, words) = refused(&url).await;
        assert!(words.contains(word) && words.contains("ALTER ROLE"), "{words}");
        run(&format!("ALTER ROLE {role} RESET {setting}")).await;
    }
    // Strange, but harmless.
    run(&format!(
        "ALTER ROLE {role} SET search_path = nowhere; ALTER ROLE {role} SET bytea_output = 'escape'"
    ))
    .await;
    run(&format!(
        "ALTER ROLE {role} SET client_encoding = 'LATIN1'; ALTER ROLE {role} SET timezone = 'Asia/Tokyo'"
    ))
    .await;
    use_store(&url).await;
    run(&format!("DROP SCHEMA {} CASCADE; DROP ROLE {role}", name("s_picky"))).await;
}

#[tokio::test]
async fn a_schema_of_another_release_is_refused() {
    let schema = schemas::Schema::new(&tenure_testbed::postgres(), &name("s_newer"));
    drop(PostgresStore::open(&schema.url("")).await.unwrap());
    run(&format!("UPDATE {}.layout SET version = 99", schema.name())).await;
    let (error, words) = refused(&schema.url("")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("layout 99"), "{words}");
}

#[tokio::test]
async fn a_closed_store_says_so() {
    let schema = schemas::Schema::new(&tenure_testbed::postgres(), &name("s_closed"));
    let store = PostgresStore::open(&schema.url("")).await.unwrap();
    store.commit(Commit::new().set(Key::from("k"), "v")).await.unwrap();
    store.close();
    assert!(matches!(store.get(&Key::from("k")).await, Err(StoreError::Closed(_))));
    let refused = store.commit(Commit::new()).await.unwrap_err();
    assert!(matches!(refused, tenure_store::CommitError::Failed(StoreError::Closed(_))));
}

#[tokio::test]
async fn tls_and_passwords() {
    let options = Options { tls: true, password: Some("secret1".into()), ..Options::default() };
    let server = Postgres::start_with(&options).unwrap();
    let ca = server.ca().display().to_string();
    let url = server.url();
    for options in
        ["sslmode=require".into(), format!("sslmode=verify-full&sslrootcert={ca}"), "sslmode=disable".into()]
    {
        let store = PostgresStore::open(&format!("{url}?{options}")).await.unwrap();
        store.commit(Commit::new().set(Key::from("k"), "v")).await.unwrap();
        let encrypted = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tenure'";
        let row = schemas::connect(&url).await.query_one(encrypted, &[]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), options != "sslmode=disable", "{options}");
        assert!(!format!("{store} {store:?}").contains("secret1"));
        drop(store);
        while schemas::connect(&url)
            .await
            .query_one(encrypted, &[])
            .await
            .unwrap()
            .get::<_, Option<bool>>(0)
            .is_some()
        {}
    }
    // The system does not trust our authority.
    let (error, words) = refused(&format!("{url}?sslmode=verify-full")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("sslrootcert"), "{words}");
    let (error, words) = refused(&url.replace("secret1", "wrong1")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("password"), "{words}");
    assert!(!format!("{error:?} {words}").contains("wrong1"), "{error:?}");
    let (error, words) = refused(&url.replace(":secret1", "")).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("password"), "{words}");
    let missing = format!("{url}?sslmode=verify-full&sslrootcert=no-such.pem");
    assert!(refused(&missing).await.1.contains("no-such.pem"));
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_it_is_required() {
    let (error, words) = refused(&format!("{}?sslmode=require", tenure_testbed::postgres())).await;
    assert!(matches!(error, StoreError::Invalid(_)) && words.contains("sslmode"), "{words}");
}
