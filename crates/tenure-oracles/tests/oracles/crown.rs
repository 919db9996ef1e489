//! Leases of Crown: the contract of an oracle, whose rights it takes, and statements that come late.

use std::time::Duration;

use crate::arena::postgres::{Crown, Database};
use tenure_oracles::{CrownLease, CrownSettings};
use tenure_singleton::{
    Answer, Oracle, Validity,
    oracle::testkit::{Conduct, conforms},
};
use tenure_store::Env;

const LEASE: Duration = Duration::from_secs(2);

fn lease(url: &str, lock: &str, node: &str, duration: Duration) -> CrownLease {
    let mut settings = CrownSettings::from_url(&format!("crown+{url}"), lock, node).unwrap();
    settings.duration = duration;
    settings.poll = duration;
    CrownLease::new(settings).unwrap()
}

fn term(answer: &Answer) -> Option<u64> {
    match answer {
        Answer::Granted(grant) => grant.term,
        other => panic!("it should have been granted: {other:?}"),
    }
}

fn is_denied(answer: &Answer) -> bool {
    matches!(answer, Answer::Denied { .. })
}

async fn conform(url: &str) {
    // An answer to a refresh has a sixth of it, on a machine that may have a lot to do.
    let time = LEASE * 2;
    let conduct = Conduct { lease: Some(time), ..Conduct::default() };
    let make = |name: String| async move { Box::new(lease(url, &name, "node", time)) as Box<dyn Oracle> };
    conforms(&conduct, make).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract() {
    let database = Database::create().await;
    conform(&database.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract_through_a_pooler() {
    // The pooler keeps connections to its databases open: the shared one is used.
    conform(&tenure_testbed::pgbouncer()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_keeps_the_contract_without_terms() {
    let database = Database::create().await;
    let role = format!("rows_only_{:x}", Env::system().random_u64());
    Crown::start(&database, "l", "a@h", LEASE).await.init().await;
    database
        .run(&format!(
            "CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON crown_lease_v1 TO {role}"
        ))
        .await;
    let url = database.url_of(&role);
    conform(&url).await;
    let mut oracle = lease(&url, "l", "n", LEASE);
    assert_eq!(term(&oracle.claim().await), None);
    assert_eq!(term(&oracle.refresh().await), None);
    database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_grant_lasts_from_the_question_and_a_refusal_says_how_long_to_wait() {
    let database = Database::create().await;
    let url = database.url();
    let (mut holder, mut rival) = (lease(&url, "l", "a", LEASE), lease(&url, "l", "b", LEASE));
    let Answer::Granted(grant) = holder.claim().await else { panic!("nobody else is there") };
    assert_eq!((grant.validity, grant.refresh_after), (Validity::For(LEASE), Some(LEASE / 2)));
    match rival.claim().await {
        Answer::Denied { retry_after: Some(after), holder: Some(who) } => {
            assert_eq!(who, holder.holder());
            assert!(after > LEASE / 2 && after <= LEASE, "{after:?}");
        }
        other => panic!("{other:?}"),
    }
    let client = database.connect().await;
    let row = client.query_one("SELECT lock_name, holder FROM crown_lease_v1", &[]).await.unwrap();
    assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("l", holder.holder()));
    assert!(holder.holder().starts_with("tenure:a:"));
}

#[tokio::test]
async fn terms_grow_whoever_of_crown_comes_in_between() {
    let database = Database::create().await;
    let crown = Crown::start(&database, "l", "crown@host", Duration::from_millis(50)).await;
    let (mut a, mut b) = (lease(&database.url(), "l", "a", LEASE), lease(&database.url(), "l", "b", LEASE));
    let mut last = 0;
    for round in 0..30 {
        let oracle = if round % 2 == 0 { &mut a } else { &mut b };
        let granted = term(&oracle.claim().await).unwrap();
        assert!(granted > last, "{granted} after {last} in round {round}");
        last = granted;
        assert_eq!(term(&oracle.refresh().await), Some(last));
        assert!(!crown.claim().await);
        oracle.abdicate(None).await;
        // Crown comes in between: not at all, giving up, or going down.
        match round % 3 {
            0 => {}
            1 => {
                assert!(crown.claim().await && crown.claim().await);
                crown.abdicate().await;
            }
            _ => {
                assert!(crown.claim().await);
                Env::system().sleep(Duration::from_millis(70)).await;
            }
        }
    }
}

#[tokio::test]
async fn a_lease_that_expired_is_not_refreshed_but_claimed_under_a_new_term() {
    let database = Database::create().await;
    let short = Duration::from_millis(500);
    let mut oracle = lease(&database.url(), "l", "a", short);
    let first = term(&oracle.claim().await).unwrap();
    Env::system().sleep(short * 2).await;
    assert!(is_denied(&oracle.refresh().await));
    assert!(term(&oracle.claim().await).unwrap() > first);
    // The row is gone: somebody may have had it.
    database.run("DELETE FROM crown_lease_v1").await;
    assert!(is_denied(&oracle.refresh().await));
}

#[tokio::test]
async fn two_of_one_node_are_two() {
    let database = Database::create().await;
    let (mut one, mut two) =
        (lease(&database.url(), "l", "same", LEASE), lease(&database.url(), "l", "same", LEASE));
    assert!(term(&one.claim().await).is_some());
    assert!(is_denied(&two.claim().await));
    two.abdicate(None).await;
    assert!(is_denied(&two.claim().await));
}

/// Somebody locks the row; an abdication waits for it, is given up, and is executed later.
#[tokio::test]
async fn an_abdication_that_comes_late_takes_nothing_away() {
    let database = Database::create().await;
    let (mut oracle, mut rival) =
        (lease(&database.url(), "l", "a", LEASE), lease(&database.url(), "l", "b", LEASE));
    term(&oracle.claim().await);
    let before = oracle.holder().to_owned();
    let mut client = database.connect().await;
    let locked = client.transaction().await.unwrap();
    locked.execute("SELECT FROM crown_lease_v1 FOR UPDATE", &[]).await.unwrap();
    assert!(matches!(oracle.abdicate(None).await, Answer::Unknown { .. }));
    // A claim waits as well, and is given up as well.
    assert!(matches!(oracle.claim().await, Answer::Unknown { .. }));
    assert_ne!(oracle.holder(), before);
    locked.rollback().await.unwrap();
    let env = Env::system();
    let end = env.now().after(LEASE * 3);
    while !matches!(oracle.claim().await, Answer::Granted(_)) {
        assert!(env.now() < end, "it is never free again");
        env.sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..10 {
        env.sleep(LEASE / 10).await;
        term(&oracle.refresh().await);
        assert!(is_denied(&rival.claim().await));
    }
}

/// A claim that began long ago has computed an earlier end than the one that the row has by now.
#[tokio::test]
async fn nothing_of_ours_brings_the_end_of_our_lease_forward() {
    let database = Database::create().await;
    let mut oracle = lease(&database.url(), "l", "a", LEASE);
    term(&oracle.claim().await);
    let client = database.connect().await;
    let later = "UPDATE crown_lease_v1 SET expires_at = clock_timestamp() + interval '1 hour'";
    client.execute(later, &[]).await.unwrap();
    term(&oracle.claim().await);
    term(&oracle.refresh().await);
    let left = "SELECT extract(epoch FROM expires_at - clock_timestamp())::float8 FROM crown_lease_v1";
    assert!(client.query_one(left, &[]).await.unwrap().get::<_, f64>(0) > 3500.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_start_at_once_on_an_empty_schema() {
    for _ in 0..5 {
        let database = Database::create().await;
        let mut claims = tokio::task::JoinSet::new();
        for index in 0..20 {
            // Long enough for a machine that has a lot to do.
            let mut oracle = lease(&database.url(), "l", &format!("n{index}"), LEASE * 10);
            claims.spawn(async move { oracle.claim().await });
        }
        let answers = claims.join_all().await;
        let granted = answers.iter().filter(|answer| matches!(answer, Answer::Granted(_))).count();
        let denied = answers.iter().filter(|answer| is_denied(answer)).count();
        assert_eq!((granted, denied), (1, 19), "{answers:?}");
    }
}

#[tokio::test]
async fn a_role_without_create_is_told_what_to_do() {
    let database = Database::create().await;
    let role = format!("nobody_{:x}", Env::system().random_u64());
    database.run(&format!("CREATE ROLE {role} LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")).await;
    let mut oracle = lease(&database.url_of(&role), "l", "n", LEASE);
    let Answer::Unknown { reason } = oracle.claim().await else { panic!("it may not make the table") };
    assert!(
        reason.contains("CREATE TABLE") && reason.contains("GRANT") && reason.contains(&role),
        "{reason}"
    );
    // Whoever does as it says is granted, without the oracle being made anew.
    let from = reason.find("CREATE TABLE").unwrap();
    database.run(&reason[from..]).await;
    assert_eq!(term(&oracle.claim().await), None);
    database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_table_that_is_dropped_is_made_again_and_a_database_that_is_away_is_unknown() {
    let database = Database::create().await;
    let mut oracle = lease(&database.url(), "l", "n", LEASE);
    term(&oracle.claim().await);
    database.run("DROP TABLE crown_lease_v1").await;
    assert!(matches!(oracle.refresh().await, Answer::Unknown { .. }));
    assert!(term(&oracle.claim().await).is_some());
    database
        .run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tenure' \
              AND datname = current_database()",
        )
        .await;
    // The first may find out; the second connects again.
    let _ = oracle.refresh().await;
    assert!(term(&oracle.refresh().await).is_some());
    let mut nowhere = lease("postgres://nobody@127.0.0.1:1/none", "l", "n", LEASE);
    assert!(matches!(nowhere.claim().await, Answer::Unknown { .. }));
    assert!(is_denied(&nowhere.abdicate(None).await));
}

#[tokio::test]
async fn a_schema_can_be_named() {
    let database = Database::create().await;
    database.run("CREATE SCHEMA \"Odd \"\"one\"").await;
    let url = format!("{}?schema=Odd%20%22one", database.url());
    let mut oracle = lease(&url, "l", "n", LEASE);
    assert!(term(&oracle.claim().await).is_some());
    database.run("SELECT term FROM \"Odd \"\"one\".tenure_crown_terms").await;
}

#[test]
fn default_settings_are_crowns() {
    let settings = CrownSettings::from_url("crown+postgres://postgres@localhost/app", "l", "n").unwrap();
    assert_eq!((settings.duration, settings.poll), (Duration::from_secs(30), Duration::from_secs(10)));
    assert_eq!((settings.lock.as_str(), settings.schema), ("l", None));
}

/// A term in a column of Crown's own table would start anew with each of Crown's abdications, which delete the row; and
/// Crown's claims would take it along unchanged. The table of our own forgets nothing.
#[tokio::test]
async fn a_column_of_crowns_table_could_not_keep_terms() {
    let database = Database::create().await;
    let crown = Crown::start(&database, "l", "crown@host", LEASE).await;
    crown.init().await;
    database.run("ALTER TABLE crown_lease_v1 ADD COLUMN term bigint NOT NULL DEFAULT 0").await;
    let client = database.connect().await;
    let column = async || {
        let row = client.query_opt("SELECT term FROM crown_lease_v1", &[]).await.unwrap();
        row.map(|row| row.get::<_, i64>(0))
    };
    // Crown lives with the column.
    assert!(crown.claim().await);
    database.run("UPDATE crown_lease_v1 SET term = 7").await;
    assert!(crown.claim().await, "a refresh");
    assert_eq!(column().await, Some(7));
    database.run("UPDATE crown_lease_v1 SET expires_at = clock_timestamp() - interval '1 s'").await;
    let other = Crown::start(&database, "l", "other@host", LEASE).await;
    assert!(other.claim().await, "another holder");
    assert_eq!(column().await, Some(7), "and the same term");
    other.abdicate().await;
    assert_eq!(column().await, None);
    assert!(crown.claim().await);
    assert_eq!(column().await, Some(0), "it began anew");
    crown.abdicate().await;
    // Ours takes part in such a table, and its terms grow through all that.
    let mut ours = lease(&database.url(), "l", "a", LEASE);
    let first = term(&ours.claim().await).unwrap();
    ours.abdicate(None).await;
    assert!(crown.claim().await);
    crown.abdicate().await;
    assert!(term(&ours.claim().await).unwrap() > first);
}
