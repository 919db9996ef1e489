//! Locks of SOFA's registry: the contract of an oracle, and what the seed's rules make of it.

use std::time::Duration;

use crate::arena::mariadb::{Database, Meta};
use mysql_async::prelude::Queryable as _;
use tenure_oracles::{DistributeLock, SofaSettings};
use tenure_singleton::{
    Answer, Oracle, Validity,
    oracle::testkit::{Conduct, conforms},
};
use tenure_store::Env;

const LEASE: Duration = Duration::from_secs(2);

fn lock(url: &str, name: &str, node: &str, duration: Duration) -> DistributeLock {
    let url = format!("sofa+{url}?data_center=dc");
    let mut settings = SofaSettings::from_url(&url, name, node).unwrap();
    settings.duration = duration;
    DistributeLock::new(settings).unwrap()
}

fn term(answer: &Answer) -> u64 {
    match answer {
        Answer::Granted(grant) => grant.term.unwrap(),
        other => panic!("it should have been granted: {other:?}"),
    }
}

fn is_denied(answer: &Answer) -> bool {
    matches!(answer, Answer::Denied { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract() {
    let database = Database::create().await;
    let url = database.url();
    // Seconds are cut off on both sides.
    let conduct = Conduct { lease: Some(LEASE), slack: Duration::from_secs(4), ..Conduct::default() };
    let make = |name: String| {
        let url = url.clone();
        async move { Box::new(lock(&url, &name, "node", LEASE)) as Box<dyn Oracle> }
    };
    conforms(&conduct, make).await;
}

#[tokio::test]
async fn a_java_node_takes_over_at_once_what_was_given_up() {
    let database = Database::create().await;
    let mut ours = lock(&database.url(), "l", "a", Duration::from_secs(20));
    let first = term(&ours.claim().await);
    let mut java = Meta::start(&database, "l", "10.0.0.1", 20_000).await;
    assert!(java.elect().await.is_none());
    ours.abdicate(None).await;
    let row = java.elect().await.expect("it is free");
    assert_eq!((row.term, row.term_duration), (first + 1, 0));
    assert!(is_denied(&ours.refresh().await));
    match ours.claim().await {
        Answer::Denied { holder: Some(holder), .. } => assert_eq!(holder, "10.0.0.1"),
        other => panic!("{other:?}"),
    }
    // Giving up once more is not giving up what is another's.
    ours.abdicate(None).await;
    assert!(java.elect().await.is_some());
}

#[tokio::test]
async fn the_duration_in_the_row_counts() {
    let database = Database::create().await;
    let mut first = lock(&database.url(), "l", "a", Duration::from_secs(3));
    term(&first.claim().await);
    first.abdicate(None).await;
    let mut other = lock(&database.url(), "l", "b", Duration::from_secs(60));
    match other.claim().await {
        Answer::Granted(grant) => {
            let Validity::For(time) = grant.validity else { panic!("{grant:?}") };
            assert!(time <= Duration::from_secs(3) && time > Duration::from_millis(2500), "{time:?}");
        }
        answer => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn renewals_and_takeovers_write_what_the_seed_says() {
    let database = Database::create().await;
    let mut conn = database.connect().await;
    let mut a = lock(&database.url(), "l", "a", LEASE);
    assert_eq!(term(&a.claim().await), 1);
    for _ in 0..3 {
        assert_eq!(term(&a.refresh().await), 1);
    }
    let statement = "SELECT owner, duration, term, term_duration FROM distribute_lock";
    let row: (String, i64, u64, u64) = conn.query_first(statement).await.unwrap().unwrap();
    assert_eq!(row, (a.owner().to_owned(), 2000, 1, 3));
    assert_eq!(term(&a.claim().await), 1, "a claim by the holder");
    a.abdicate(None).await;
    assert_eq!(term(&a.claim().await), 2, "a claim after giving up");
    let state = a.observe().await.unwrap().unwrap();
    assert_eq!((state.owner.as_str(), state.term, state.expired), (a.owner(), 2, false));
    assert!(state.left <= LEASE && state.left > LEASE / 2);
}

#[tokio::test]
async fn an_observer_writes_nothing() {
    let database = Database::create().await;
    let mut observer = lock(&database.url(), "l", "a", LEASE);
    assert!(observer.observe().await.is_err(), "there is no table");
    let mut other = lock(&database.url(), "l", "b", LEASE);
    assert!(is_denied(&other.abdicate(None).await));
    assert!(observer.observe().await.is_err(), "still none");
    term(&other.claim().await);
    assert_eq!(observer.observe().await.unwrap().unwrap().owner, other.owner());
    Env::system().sleep(LEASE + Duration::from_secs(2)).await;
    let state = observer.observe().await.unwrap().unwrap();
    assert!(state.expired && state.left.is_zero() && state.term == 1);
}

/// Renewals and the giving-up that come late, after others were executed: each finds another count of renewals.
#[tokio::test]
async fn what_comes_late_changes_nothing() {
    let database = Database::create().await;
    let long = Duration::from_secs(6);
    let (mut ours, mut rival) =
        (lock(&database.url(), "l", "a", long), lock(&database.url(), "l", "b", long));
    term(&ours.claim().await);
    let mut blocker = database.connect().await;
    blocker.query_drop("BEGIN").await.unwrap();
    blocker.query_drop("SELECT * FROM distribute_lock FOR UPDATE").await.unwrap();
    // It waits for the row, and is given up.
    assert!(matches!(ours.abdicate(None).await, Answer::Unknown { .. }));
    blocker.query_drop("COMMIT").await.unwrap();
    let env = Env::system();
    env.sleep(Duration::from_millis(100)).await;
    // Whether or not it was executed: who is granted now keeps it.
    let granted = term(&ours.claim().await);
    for _ in 0..10 {
        env.sleep(Duration::from_millis(100)).await;
        assert_eq!(term(&ours.refresh().await), granted);
        assert!(is_denied(&rival.claim().await));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_start_at_once_on_an_empty_schema() {
    for _ in 0..3 {
        let database = Database::create().await;
        let mut claims = tokio::task::JoinSet::new();
        for index in 0..20 {
            let mut oracle = lock(&database.url(), "l", &format!("n{index}"), LEASE * 10);
            claims.spawn(async move { oracle.claim().await });
        }
        let answers = claims.join_all().await;
        let granted = answers.iter().filter(|answer| matches!(answer, Answer::Granted(_))).count();
        let denied = answers.iter().filter(|answer| is_denied(answer)).count();
        assert_eq!((granted, denied), (1, 19), "{answers:?}");
    }
}

/// The server notes when the renewal began, not when it got hold of the row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_had_to_wait_counts_from_its_beginning() {
    let database = Database::create().await;
    let (long, wait) = (Duration::from_secs(6), Duration::from_secs(1));
    let mut ours = lock(&database.url(), "l", "a", long);
    term(&ours.claim().await);
    let mut blocker = database.connect().await;
    blocker.query_drop("BEGIN").await.unwrap();
    blocker.query_drop("SELECT * FROM distribute_lock FOR UPDATE").await.unwrap();
    let refreshed = tokio::spawn(async move { ours.refresh().await });
    Env::system().sleep(wait).await;
    blocker.query_drop("COMMIT").await.unwrap();
    let Answer::Granted(grant) = refreshed.await.unwrap() else { panic!("it waited less than its patience") };
    let Validity::For(time) = grant.validity else { panic!("{grant:?}") };
    assert!(time <= long - wait / 2 && time > long / 2, "{time:?}");
}

#[tokio::test]
async fn two_of_one_node_are_two() {
    let database = Database::create().await;
    let (mut one, mut two) =
        (lock(&database.url(), "l", "same", LEASE), lock(&database.url(), "l", "same", LEASE));
    term(&one.claim().await);
    assert!(is_denied(&two.claim().await));
    two.abdicate(None).await;
    assert!(is_denied(&two.claim().await));
    term(&one.refresh().await);
}

#[tokio::test]
async fn a_user_without_create_is_told_what_to_do() {
    let database = Database::create().await;
    let user = format!("sofa_{:x}", Env::system().random_u64());
    database.run(&format!("CREATE USER {user}")).await;
    database.run(&format!("GRANT SELECT, INSERT, UPDATE ON {}.* TO {user}", database.name)).await;
    let mut oracle = lock(&database.url_of(&user), "l", "n", LEASE);
    let Answer::Unknown { reason } = oracle.claim().await else { panic!("it may not make the table") };
    assert!(reason.contains("CREATE TABLE") && reason.contains(&user), "{reason}");
    let (from, to) = (reason.find("CREATE TABLE").unwrap(), reason.find("; and grant").unwrap());
    database.run(&reason[from..to]).await;
    assert_eq!(term(&oracle.claim().await), 1);
    database.run(&format!("DROP USER {user}")).await;
    let mut nowhere = lock("mysql://nobody@127.0.0.1:1/none", "l", "n", LEASE);
    assert!(matches!(nowhere.claim().await, Answer::Unknown { .. }));
}
