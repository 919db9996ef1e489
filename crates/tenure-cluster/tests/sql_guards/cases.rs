//! What every server must do.

use std::time::Duration;

use tenure_cluster::{Keys, SessionId, Settings, Term, sql::FENCED};
use tenure_store::{Commit, Env, Name, Store as _, Tuple};

use crate::server::{Client, Kind, Refusal, Server, pause, settings, soon};

fn fenced(result: Result<(), Refusal>, words: &str) {
    let refusal = result.expect_err("a refusal");
    assert_eq!(refusal.state, FENCED, "{refusal:?}");
    assert!(refusal.message.contains(words), "{words:?} in {refusal:?}");
}

/// What is stored of an election, as far as a guard reads it, and more.
pub(crate) fn office(term: u64, session: [u8; 16]) -> Vec<u8> {
    [&[1][..], &term.to_be_bytes(), &session, b"whatever else"].concat()
}

pub(crate) async fn the_current_term_passes(server: &Server) {
    let node = server.join(0, "a").await;
    let leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.work("e", leadership.term().0).await.unwrap();
    assert_eq!(server.lines().await, 1);
    // What a guard leaves behind would be in the way now.
    leadership.resign().await.unwrap();
    let again = node.election("e").unwrap().campaign().await.unwrap();
    assert_eq!(again.term(), Term(2));
    client.work("e", 2).await.unwrap();
    assert_eq!(server.lines().await, 2);
}

pub(crate) async fn every_other_term_is_refused(server: &Server) {
    let node = server.join(0, "a").await;
    let office = node.election("e").unwrap();
    office.campaign().await.unwrap().resign().await.unwrap();
    let _leadership = office.campaign().await.unwrap();
    let mut client = server.client(0).await;
    for term in [1, 3, 0, 1 << 40, i64::MAX.unsigned_abs()] {
        fenced(client.work("e", term).await, &format!("term {term} "));
        fenced(client.work("e", term).await, "it is in term 2");
    }
    fenced(client.work("unknown", 1).await, "nobody was ever elected");
    for (cluster, election, term) in [
        (None, Some("e"), Some(2)),
        (Some("c"), None, Some(2)),
        (Some("c"), Some("e"), None),
        (Some("other"), Some("e"), Some(2)),
        (Some("c"), Some("E"), Some(2)),
        (Some("c"), Some("e "), Some(2)),
        (Some("c"), Some(""), Some(2)),
        (None, None, None),
    ] {
        client.begin(None).await;
        client.write().await.unwrap();
        fenced(client.guard_with(cluster, election, term).await, "is not current");
        // What looks like a commit is none.
        let _ = client.commit().await;
    }
    assert_eq!(server.lines().await, 0);
}

pub(crate) async fn a_vacant_office_is_refused(server: &Server) {
    let node = server.join(0, "a").await;
    node.election("e").unwrap().campaign().await.unwrap().resign().await.unwrap();
    let mut client = server.client(0).await;
    fenced(client.work("e", 1).await, "nobody holds it");
    fenced(client.work("e", 2).await, "it is in term 1");
}

pub(crate) async fn an_ended_session_is_refused(server: &Server) {
    let node = server.join(0, "a").await;
    let leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.work("e", 1).await.unwrap();
    let _other = server.displace(0, "a").await;
    fenced(client.work("e", 1).await, "session of its holder has ended");
    drop(leadership);
    assert_eq!(server.lines().await, 1);
}

/// Somebody takes over while a guarded transaction is under way.
async fn takeover(server: &Server, end: impl AsyncFnOnce(&mut Client)) {
    let (first, second) = (server.join(0, "a").await, server.join(0, "b").await);
    let _leadership = first.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    let office = second.election("e").unwrap();
    let deposing = tokio::spawn({
        let office = office.clone();
        async move { office.depose().await.unwrap() }
    });
    server.until_a_commit_waits().await;
    assert!(!deposing.is_finished());
    // While it waits, the guarded transaction goes on.
    client.write().await.unwrap();
    assert_eq!(office.leader().await.unwrap().leader.unwrap().node.as_str(), "a");
    end(&mut client).await;
    assert!(soon("deposing", deposing).await.unwrap().is_some());
    let next = soon("the next leader", office.campaign()).await.unwrap();
    assert!(next.term() > Term(1));
    client.work("e", 1).await.unwrap_err();
}

pub(crate) async fn a_takeover_waits_for_a_commit(server: &Server) {
    takeover(server, async |client| client.commit().await.unwrap()).await;
    assert_eq!(server.lines().await, 2);
}

pub(crate) async fn a_takeover_waits_for_a_rollback(server: &Server) {
    takeover(server, async |client| client.rollback().await).await;
    assert_eq!(server.lines().await, 0);
}

pub(crate) async fn the_end_of_a_session_waits(server: &Server) {
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    let committing = async {
        server.until_a_commit_waits().await;
        client.commit().await.unwrap();
    };
    let ending = async { tokio::join!(server.displace(0, "a"), committing) };
    let (_other, ()) = soon("the end of the session", ending).await;
    assert_eq!(server.lines().await, 1);
    fenced(client.work("e", 1).await, "session of its holder has ended");
}

pub(crate) async fn an_older_snapshot_does_not_help(server: &Server) {
    let node = server.join(0, "a").await;
    let office = node.election("e").unwrap();
    let mut term = 0;
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let leadership = office.campaign().await.unwrap();
        term += 1;
        let mut client = server.client(0).await;
        client.begin(Some(level)).await;
        assert_eq!(client.count("SELECT line FROM work").await, 0);
        leadership.resign().await.unwrap();
        let leadership = office.campaign().await.unwrap();
        // What began before the takeover does not belong to the term before,
        let refusal = client.guard("c", "e", term).await.unwrap_err();
        assert!([FENCED, "40001"].contains(&refusal.state.as_str()), "{level}: {refusal:?}");
        let _ = client.commit().await;
        // nor to the term after, if it may have read what was true in the one before.
        client.begin(Some(level)).await;
        assert_eq!(client.count("SELECT line FROM work").await, 0);
        leadership.resign().await.unwrap();
        let leadership = office.campaign().await.unwrap();
        term += 2;
        let done = client.guard("c", "e", term).await;
        match (level, server.kind) {
            // The former sees what is true now. The latter has locked what it has read.
            ("READ COMMITTED", _) | ("SERIALIZABLE", Kind::Mysql) => done.unwrap(),
            _ => assert_eq!(done.unwrap_err().state, "40001", "{level}"),
        }
        client.rollback().await;
        leadership.resign().await.unwrap();
    }
}

pub(crate) async fn an_older_snapshot_keeps_no_session(server: &Server) {
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut clients = Vec::new();
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let mut client = server.client(0).await;
        client.begin(Some(level)).await;
        assert_eq!(client.count("SELECT line FROM work").await, 0);
        clients.push((level, client));
    }
    let _other = server.displace(0, "a").await;
    for (level, mut client) in clients {
        let refusal = client.guard("c", "e", 1).await.unwrap_err();
        assert!([FENCED, "40001"].contains(&refusal.state.as_str()), "{level}: {refusal:?}");
    }
}

pub(crate) async fn guards_do_not_wait_for_each_other(server: &Server) {
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut clients = Vec::new();
    for level in [None, None, Some("READ COMMITTED"), Some("REPEATABLE READ"), Some("SERIALIZABLE")] {
        let mut client = server.client(0).await;
        client.begin(level).await;
        client.write().await.unwrap();
        soon("a guard beside others", client.guard("c", "e", 1)).await.unwrap();
        clients.push(client);
    }
    let count = clients.len();
    for mut client in clients {
        client.commit().await.unwrap();
    }
    assert_eq!(server.lines().await, count);
}

pub(crate) async fn heartbeats_do_not_wait(server: &Server) {
    let ttl = Settings::TTL_MIN;
    let node = server.join_as(0, settings("a").with_ttl(ttl)).await;
    // Nobody else is there to end the session, and it would lapse all the same.
    let leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    tokio::select! {
        () = leadership.lost() => panic!("a guarded transaction kept its own leader from renewing"),
        () = pause(4 * ttl) => {}
    }
    client.commit().await.unwrap();
    assert_eq!(server.lines().await, 1);
}

/// Workers keep the office guarded all the time; and yet somebody can change something.
pub(crate) async fn busy(server: &Server, change: impl Future) {
    // So many that there is never a moment without a guard.
    const WORKERS: u32 = 8;
    const WORK: Duration = Duration::from_millis(150);
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let mut client = server.client(0).await;
        workers.push(tokio::spawn(async move {
            pause(WORK / WORKERS * worker).await;
            let mut count = 0;
            let refusal = loop {
                client.begin(None).await;
                if let Err(refusal) = client.guard("c", "e", 1).await {
                    break refusal;
                }
                pause(WORK).await;
                client.commit().await.unwrap();
                count += 1;
            };
            (count, refusal)
        }));
    }
    pause(2 * WORK).await;
    soon("a change of what is always guarded", change).await;
    let mut done = 0;
    for worker in workers {
        let (count, refusal) = soon("a worker", worker).await.unwrap();
        done += count;
        assert_eq!(refusal.state, FENCED, "{refusal:?}");
    }
    assert!(done > 0);
}

pub(crate) async fn a_busy_leader_can_be_deposed(server: &Server) {
    let other = server.join(0, "b").await;
    busy(server, async { other.election("e").unwrap().depose().await.unwrap() }).await;
}

pub(crate) async fn the_session_of_a_busy_leader_can_be_ended(server: &Server) {
    busy(server, server.displace(0, "a")).await;
}

/// Whoever is told of a term before it has begun must find its session all the same.
pub(crate) async fn a_term_that_begins_meanwhile_needs_its_session(server: &Server) {
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let (mut present, mut next) = (server.client(0).await, server.client(0).await);
    present.begin(None).await;
    present.guard("c", "e", 1).await.unwrap();
    let (store, key) =
        (server.store(0).await, Keys::new(&"c".parse().unwrap()).election(&"e".parse().unwrap()));
    let taking = tokio::spawn(async move { store.commit(Commit::new().set(key, office(2, [7; 16]))).await });
    server.until_a_commit_waits().await;
    next.begin(Some("READ COMMITTED")).await;
    let guarding = async { next.guard("c", "e", 2).await };
    let ending = async {
        pause(Duration::from_millis(300)).await;
        present.commit().await.unwrap();
    };
    let (refused, ()) = soon("the guards", async { tokio::join!(guarding, ending) }).await;
    soon("the takeover", taking).await.unwrap().unwrap();
    let refusal = refused.expect_err("a session that is not there");
    assert!([FENCED, "40001"].contains(&refusal.state.as_str()), "{refusal:?}");
}

/// A value that is not of this release is refused, and not taken for something else.
pub(crate) async fn other_formats_are_refused(server: &Server) {
    let store = server.store(0).await;
    let mut client = server.client(0).await;
    let key = Keys::new(&"c".parse().unwrap()).election(&"e".parse().unwrap());
    for value in [vec![2; 40], vec![1; 24], vec![]] {
        store.commit(Commit::new().set(key.clone(), value)).await.unwrap();
        assert_eq!(client.work("e", 1).await.unwrap_err().state, "TN002");
    }
    assert_eq!(server.lines().await, 0);
}

pub(crate) async fn a_guard_may_be_repeated(server: &Server) {
    let (first, second) = (server.join(0, "a").await, server.join(0, "b").await);
    let _one = first.election("e").unwrap().campaign().await.unwrap();
    let _other = first.election("f").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.guard("c", "e", 1).await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    let office = second.election("e").unwrap();
    let deposing = tokio::spawn(async move { office.depose().await.unwrap() });
    server.until_a_commit_waits().await;
    // Nor does it wait for whoever waits for it, or forget what it holds when another is added.
    soon("the third guard", client.guard("c", "e", 1)).await.unwrap();
    soon("a guard of another election", client.guard("c", "f", 1)).await.unwrap();
    client.write().await.unwrap();
    assert!(!deposing.is_finished());
    client.commit().await.unwrap();
    soon("deposing", deposing).await.unwrap();
    assert_eq!(server.lines().await, 1);
}

pub(crate) async fn names_of_all_kinds_are_found(server: &Server) {
    let longest = ["x".repeat(255), "é".repeat(127), "🌙".repeat(63)];
    let names = [
        "e",
        "'",
        "\"; DROP TABLE work; --",
        "\\",
        "\\'",
        "%_",
        "名前",
        "🌙 nightly",
        " ",
        "$1 ? {x} %s",
        "NULL",
    ];
    let mut client = server.client(0).await;
    for name in names.into_iter().chain(longest.iter().map(String::as_str)) {
        let node = server.join_as(0, Settings::new(name, "a").unwrap()).await;
        let leadership = node.election(name).unwrap().campaign().await.unwrap();
        client.begin(None).await;
        client.guard(name, name, 1).await.unwrap();
        client.commit().await.unwrap();
        client.begin(None).await;
        fenced(client.guard(name, name, 2).await, "is not current");
        let _ = client.commit().await;
        client.begin(None).await;
        // A name that begins with this one is not this one.
        fenced(client.guard(name, &format!("{name}x"), 1).await, "nobody was ever elected");
        client.rollback().await;
        leadership.resign().await.unwrap();
        node.leave().await;
    }
}

pub(crate) async fn sessions_of_all_bytes_are_found(server: &Server) {
    let store = server.store(0).await;
    let cluster: Name = "c".parse().unwrap();
    let keys = Keys::new(&cluster);
    let mut client = server.client(0).await;
    let random: [u8; 16] = SessionId::random(&Env::system()).to_bytes();
    let ids = [
        [1; 16],
        [2; 16],
        [0xff; 16],
        [0, 1, 2, 0, 0, 1, 1, 0x5c, 0x27, 0x0a, 0x20, 0x80, 0xff, 0, 1, 0],
        [0x10, 0x11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        random,
    ];
    for (number, id) in ids.into_iter().enumerate() {
        let election: Name = format!("e{number}").parse().unwrap();
        let term = 0x0102_0304_0506_0700 + number as u64;
        let session = Tuple::new().text("tenure").name(&cluster).text("session").bytes(id.to_vec()).key();
        store.commit(Commit::new().set(keys.election(&election), office(term, id))).await.unwrap();
        fenced(client.work(election.as_str(), term).await, "session of its holder has ended");
        store.commit(Commit::new().set(session.clone(), "")).await.unwrap();
        client.work(election.as_str(), term).await.unwrap();
        store.commit(Commit::new().delete(session)).await.unwrap();
        fenced(client.work(election.as_str(), term).await, "session of its holder has ended");
    }
    assert_eq!(server.lines().await, ids.len());
}

/// What is taken back to a savepoint is what came after it.
pub(crate) async fn a_guard_outlasts_later_savepoints(server: &Server) {
    let (first, second) = (server.join(0, "a").await, server.join(0, "b").await);
    let _leadership = first.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.guard("c", "e", 1).await.unwrap();
    client.run("SAVEPOINT later").await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    client.run("ROLLBACK TO SAVEPOINT later").await;
    let office = second.election("e").unwrap();
    let deposing = tokio::spawn(async move { office.depose().await.unwrap() });
    server.until_a_commit_waits().await;
    client.write().await.unwrap();
    client.commit().await.unwrap();
    soon("deposing", deposing).await.unwrap();
    assert_eq!(server.lines().await, 1);
}
