//! Following Oban's leader: the table is written as Oban writes it, in sessions of several time zones.

use std::time::Duration;

use crate::arena::{Room, postgres::Database, stayer, until};
use tenure_oracles::{ObanPeer, ObanSettings};
use tenure_singleton::{
    Answer, Oracle,
    oracle::testkit::{Conduct, repeats_itself},
};
use tenure_store::Env;
use tenure_testbed::Postgres;
use tokio_postgres::Client;

const INTERVAL: Duration = Duration::from_millis(200);
const SETTLE: Duration = Duration::from_millis(400);

/// As the migrations of Oban make it.
const DDL: &str = "CREATE UNLOGGED TABLE public.oban_peers (name text NOT NULL PRIMARY KEY, node text NOT NULL, \
    started_at timestamp without time zone NOT NULL, expires_at timestamp without time zone NOT NULL)";

fn peer(url: &str, node: &str) -> ObanPeer {
    let peer = peer_looking_every(INTERVAL, url, node);
    assert_eq!(peer.settings().settle, SETTLE);
    peer
}

fn peer_looking_every(interval: Duration, url: &str, node: &str) -> ObanPeer {
    let url = format!("oban+{url}?name=MyApp.Oban&interval={}ms", interval.as_millis());
    ObanPeer::new(ObanSettings::from_url(&url, node).unwrap()).unwrap()
}

/// A node of Oban's: it computes times by its own clock, and writes them as UTC without a zone.
struct Oban {
    client: Client,
    node: String,
    name: String,
}

impl Oban {
    async fn start(database: &Database, node: &str) -> Self {
        Self { client: database.connect().await, node: node.to_owned(), name: "MyApp.Oban".to_owned() }
    }

    /// One election; whether it leads for this long.
    async fn elect(&mut self, seconds: f64) -> bool {
        let (now, end) = self.times(seconds);
        let (name, node) = (self.name.clone(), self.node.clone());
        let transaction = self.client.transaction().await.unwrap();
        let expired = "DELETE FROM public.oban_peers WHERE name = $1 AND expires_at < $2::text::timestamp";
        transaction.execute(expired, &[&name, &now]).await.unwrap();
        let upsert = "INSERT INTO public.oban_peers AS p (name, node, started_at, expires_at) \
            VALUES ($1, $2, $3::text::timestamp, $4::text::timestamp) \
            ON CONFLICT (name) DO UPDATE SET expires_at = EXCLUDED.expires_at WHERE p.node = EXCLUDED.node";
        let rows = transaction.execute(upsert, &[&name, &node, &now, &end]).await.unwrap();
        transaction.commit().await.unwrap();
        rows == 1
    }

    /// One election as before 2.23.1: a node that believes to lead renews whatever row has its name, and believes on.
    async fn renew_anybodys(&mut self, seconds: f64) -> bool {
        let (_, end) = self.times(seconds);
        let renew = "UPDATE public.oban_peers SET expires_at = $2::text::timestamp WHERE name = $1";
        self.client.execute(renew, &[&self.name, &end]).await.unwrap() == 1
    }

    /// Now, and so much later, in UTC.
    fn times(&self, seconds: f64) -> (String, String) {
        let now = Env::system().unix_time();
        let text = |time: Duration| {
            // Days since 1970 as a date that PostgreSQL reads without any zone.
            let (days, rest) = (time.as_secs() / 86400, time.as_secs() % 86400);
            format!(
                "J{} {:02}:{:02}:{:02}.{:06}",
                days + 2_440_588,
                rest / 3600,
                rest / 60 % 60,
                rest % 60,
                time.subsec_micros()
            )
        };
        (text(now), text(now + Duration::from_secs_f64(seconds)))
    }

    /// An orderly end: the row goes, and others are told on Oban's channel, if they are to be.
    async fn stop(&mut self, tell: bool) {
        let (name, node) = (self.name.clone(), self.node.clone());
        let transaction = self.client.transaction().await.unwrap();
        let statement = "DELETE FROM public.oban_peers WHERE name = $1 AND node = $2";
        transaction.execute(statement, &[&name, &node]).await.unwrap();
        if tell {
            let payload = format!("{{\"down\":\"{name}\"}}");
            transaction.execute("SELECT pg_notify('public.oban_leader', $1)", &[&payload]).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }
}

#[tokio::test]
async fn the_leader_of_oban_is_granted_once_its_leadership_has_settled() {
    let database = Database::create().await;
    let (mut here, mut there) = (peer(&database.url(), "here@host"), peer(&database.url(), "there@host"));
    assert!(matches!(here.claim().await, Answer::Unknown { .. }), "there is no table");
    database.run(DDL).await;
    assert!(matches!(here.claim().await, Answer::Denied { holder: None, .. }), "nobody leads");
    let mut oban = Oban::start(&database, "here@host").await;
    assert!(oban.elect(30.0).await);
    let env = Env::system();
    let seen = env.now();
    let granted = loop {
        match here.claim().await {
            Answer::Granted(grant) => break grant,
            Answer::Denied { holder, retry_after } => {
                assert_eq!(holder.as_deref(), Some("here@host"));
                assert!(retry_after.unwrap() <= INTERVAL);
            }
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(there.claim().await, Answer::Denied { holder: Some(node), .. } if node == "here@host")
        );
        env.sleep(Duration::from_millis(20)).await;
    };
    assert!(env.now() - seen >= SETTLE);
    assert_eq!(granted.validity, tenure_singleton::Validity::For(INTERVAL * 2));
    assert!(oban.elect(30.0).await);
    let Answer::Granted(again) = here.refresh().await else { panic!("it was renewed") };
    assert_eq!(again.term, granted.term, "a renewal is no new leadership");
    // The same node, elected anew.
    oban.stop(false).await;
    assert!(oban.elect(30.0).await);
    assert!(matches!(here.refresh().await, Answer::Denied { .. }), "it has to settle");
    env.sleep(SETTLE + Duration::from_millis(50)).await;
    let Answer::Granted(anew) = here.claim().await else { panic!("it has settled") };
    assert!(anew.term > granted.term);
    let rows = database.connect().await.query("SELECT 1 FROM oban_peers", &[]).await.unwrap();
    assert_eq!(rows.len(), 1, "giving up writes nothing");
}

/// Whatever the zone of our session, a row that has not expired counts, and one that has does not.
#[tokio::test]
async fn time_zones_of_sessions_do_not_matter() {
    for zone in ["Asia/Tokyo", "America/New_York", "UTC"] {
        let database = Database::create().await;
        database.run(DDL).await;
        database.run(&format!("ALTER DATABASE {} SET timezone = '{zone}'", database.name)).await;
        let mut here = peer(&database.url(), "here");
        let mut oban = Oban::start(&database, "here").await;
        assert!(oban.elect(1.5).await);
        let env = Env::system();
        assert!(matches!(here.claim().await, Answer::Denied { holder: Some(_), .. }), "{zone}: it is new");
        env.sleep(SETTLE + Duration::from_millis(50)).await;
        let Answer::Granted(grant) = here.claim().await else { panic!("{zone}: it is current") };
        let now = u64::try_from(env.unix_time().as_micros()).unwrap();
        let age = now - grant.term.unwrap();
        assert!(age < 60_000_000, "{zone}: the term is {age} microseconds old");
        env.sleep(Duration::from_millis(1200)).await;
        assert!(
            matches!(here.refresh().await, Answer::Denied { holder: None, .. }),
            "{zone}: it has expired"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_child_runs_where_oban_leads_and_nowhere_else() {
    let database = Database::create().await;
    database.run(DDL).await;
    let room = Room::new();
    let nodes = ["web.1", "web.2"].map(|node| stayer(&room, node, peer(&database.url(), node)));
    let mut obans = [Oban::start(&database, "web.1").await, Oban::start(&database, "web.2").await];
    let env = Env::system();
    let patience = Duration::from_secs(5);
    for round in 0..8 {
        let (tell, at) = (round % 2 == 0, round % 2);
        let node = obans[at].node.clone();
        assert!(obans[at].elect(30.0).await);
        assert!(!obans[1 - at].elect(30.0).await);
        until("the child runs there", patience, || room.inside().as_deref() == Some(&node)).await;
        let asked = env.now();
        if round == 5 {
            // After a crash of the server, the table is empty.
            database.run("TRUNCATE oban_peers").await;
        } else {
            obans[at].stop(tell).await;
        }
        // The other is elected at once: our children must not overlap for that.
        assert!(obans[1 - at].elect(30.0).await);
        until("the child has stopped there", patience, || room.inside().as_deref() != Some(&node)).await;
        let took = env.now() - asked;
        if tell {
            assert!(took < INTERVAL / 2, "a notice comes sooner than the next look: {took:?}");
        }
        obans[1 - at].stop(false).await;
    }
    for node in nodes {
        node.shutdown().await;
    }
    room.judge();
    assert!(room.changes() >= 7);
}

/// Each leader goes, with a notice or without, and the other is elected at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_two_at_a_time_through_many_changes() {
    const CHANGES: usize = 200;
    let database = Database::create().await;
    database.run(DDL).await;
    let room = Room::new();
    let nodes = ["web.1", "web.2"].map(|node| {
        stayer(&room, node, peer_looking_every(Duration::from_millis(50), &database.url(), node))
    });
    let mut obans = [Oban::start(&database, "web.1").await, Oban::start(&database, "web.2").await];
    for round in 0..=CHANGES {
        let at = round % 2;
        assert!(obans[at].elect(30.0).await);
        let node = obans[at].node.clone();
        until("the child runs there", Duration::from_secs(20), || room.inside().as_deref() == Some(&node))
            .await;
        obans[at].stop(round % 3 == 0).await;
    }
    for node in nodes {
        node.shutdown().await;
    }
    room.judge();
    assert!(room.changes() >= CHANGES, "{} changes", room.changes());
    for node in ["web.1", "web.2"] {
        assert!(room.count(node) >= CHANGES / 2, "{node} came only {} times", room.count(node));
    }
}

/// Oban stops renewing: the child is gone before the row has expired.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_leadership_that_fades_ends_in_time() {
    let database = Database::create().await;
    database.run(DDL).await;
    let room = Room::new();
    let node = stayer(&room, "web.1", peer(&database.url(), "web.1"));
    let mut oban = Oban::start(&database, "web.1").await;
    let env = Env::system();
    let end = env.now().after(Duration::from_secs(2));
    assert!(oban.elect(2.0).await);
    until("it leads", Duration::from_secs(2), || room.inside().is_some()).await;
    until("it ends", Duration::from_secs(5), || room.inside().is_none()).await;
    assert!(env.now() < end.after(Duration::from_millis(20)), "it ran {:?} too long", env.now() - end);
    node.shutdown().await;
}

/// A role that may only read, as an observer should be.
#[tokio::test]
async fn a_role_that_may_only_read_can_observe() {
    let database = Database::create().await;
    database.run(DDL).await;
    let role = format!("reader_{:x}", Env::system().random_u64());
    database.run(&format!("CREATE ROLE {role} LOGIN; GRANT SELECT ON oban_peers TO {role}")).await;
    let mut reader = peer(&database.url_of(&role), "web.1");
    assert!(matches!(reader.claim().await, Answer::Denied { holder: None, .. }));
    let mut oban = Oban::start(&database, "web.1").await;
    assert!(oban.elect(30.0).await);
    assert!(matches!(reader.claim().await, Answer::Denied { holder: Some(_), .. }));
    Env::system().sleep(SETTLE + Duration::from_millis(20)).await;
    assert!(matches!(reader.claim().await, Answer::Granted(_)));
    database.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// Before 2.23.1, a node whose row was lost renews that of the other, and both believe that they lead. Here the row counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_that_believe_to_lead_before_2_23_1_are_one() {
    let database = Database::create().await;
    database.run(DDL).await;
    let room = Room::new();
    let nodes = ["web.1", "web.2"].map(|node| stayer(&room, node, peer(&database.url(), node)));
    let mut obans = [Oban::start(&database, "web.1").await, Oban::start(&database, "web.2").await];
    assert!(obans[0].elect(30.0).await);
    let patience = Duration::from_secs(10);
    until("the child runs there", patience, || room.inside().as_deref() == Some("web.1")).await;
    database.run("TRUNCATE oban_peers").await;
    assert!(obans[1].elect(30.0).await);
    for _ in 0..20 {
        assert!(obans[0].renew_anybodys(30.0).await, "it believes to lead");
        assert!(obans[1].renew_anybodys(30.0).await, "so does the other");
        Env::system().sleep(SETTLE / 4).await;
    }
    assert_eq!(room.inside().as_deref(), Some("web.2"), "whose name is in the row");
    for node in nodes {
        node.shutdown().await;
    }
    room.judge();
    assert_eq!((room.count("web.1"), room.count("web.2")), (1, 1));
}

/// The table is not logged: a server that was killed comes back with none of its rows. Whoever led by one has stopped, and nobody leads until Oban elects anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_empty_table_after_an_unclean_restart_is_nobody() {
    let server = Postgres::start().unwrap();
    let database = Database::create_on(&server.url()).await;
    database.run(DDL).await;
    let room = Room::new();
    let node = stayer(&room, "web.1", peer(&database.url(), "web.1"));
    let mut oban = Oban::start(&database, "web.1").await;
    assert!(oban.elect(600.0).await);
    let patience = Duration::from_secs(20);
    until("the child runs", patience, || room.inside().is_some()).await;
    server.kill().unwrap();
    until("the child stops, since nobody can tell", patience, || room.inside().is_none()).await;
    server.restart().unwrap();
    let mut onlooker = peer(&database.url(), "web.1");
    assert!(matches!(onlooker.claim().await, Answer::Denied { holder: None, .. }), "the row is gone");
    Env::system().sleep(SETTLE * 2).await;
    assert_eq!(room.inside(), None, "nobody leads");
    let mut oban = Oban::start(&database, "web.1").await;
    assert!(oban.elect(600.0).await);
    until("the child runs again", patience, || room.inside().is_some()).await;
    node.shutdown().await;
    room.judge();
    let terms: Vec<_> = room.visits().iter().map(|visit| visit.term).collect();
    assert!(terms.len() == 2 && terms.is_sorted_by(|a, b| a < b), "{terms:?}");
}

/// What of the contract applies to who only looks on: it repeats itself, others are refused, and nothing is written, not even by giving up.
#[tokio::test]
async fn it_keeps_the_contract_of_an_observer_and_never_writes() {
    let database = Database::create().await;
    database.run(DDL).await;
    let mut oban = Oban::start(&database, "web.1").await;
    assert!(oban.elect(600.0).await);
    let client = database.connect().await;
    // A row that was written, even with what it had, has another xmin or ctid.
    let row = async || {
        let rows = client.query("SELECT xmin::text, ctid::text, p::text FROM oban_peers p", &[]).await;
        rows.unwrap().iter().map(|row| [0, 1, 2].map(|at| row.get::<_, String>(at))).collect::<Vec<_>>()
    };
    let before = row().await;
    let mut here: Box<dyn Oracle> = Box::new(peer(&database.url(), "web.1"));
    let mut there: Box<dyn Oracle> = Box::new(peer(&database.url(), "web.2"));
    assert!(matches!(here.claim().await, Answer::Denied { .. }), "it is new");
    Env::system().sleep(SETTLE + Duration::from_millis(20)).await;
    repeats_itself(&Conduct::default(), &mut here).await;
    for oracle in [&mut there, &mut here] {
        assert!(matches!(oracle.abdicate(None).await, Answer::Denied { .. }));
        assert!(matches!(oracle.abdicate(Some("web.2")).await, Answer::Denied { .. }));
    }
    assert!(matches!(there.claim().await, Answer::Denied { .. }));
    assert!(matches!(there.refresh().await, Answer::Denied { .. }));
    repeats_itself(&Conduct::default(), &mut here).await;
    assert_eq!(row().await, before);
    let made = client.query("SELECT 1 FROM pg_class WHERE relname LIKE 'tenure%'", &[]).await.unwrap();
    assert!(made.is_empty(), "nothing else was made");
}
