//! What happens across the nodes of a Galera cluster, where locks do not reach.

use tenure_cluster::{Leadership, sql::FENCED};

use crate::server::{Client, Server, soon};

/// A leader at node 0, and a guarded transaction under way at node 1.
async fn guarded(server: &Server) -> (tenure_cluster::Cluster, Leadership, Client) {
    let node = server.join(0, "a").await;
    let leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(1).await;
    client.begin(None).await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    (node, leadership, client)
}

/// Nothing of a transaction that came second is left.
async fn came_too_late(server: &Server, mut client: Client) {
    let refusal = client.commit().await.expect_err("a commit that comes too late");
    assert_eq!(refusal.state, "40001", "{refusal:?}");
    let _ = client.try_run("ROLLBACK").await;
    assert_eq!(client.work("e", 1).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_through_another_node_wins() {
    let server = Server::galera().await;
    let (_node, _leadership, client) = guarded(&server).await;
    let other = server.join(2, "b").await;
    let office = other.election("e").unwrap();
    assert!(soon("deposing", office.depose()).await.unwrap().is_some());
    let _next = soon("the next leader", office.campaign()).await.unwrap();
    came_too_late(&server, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_session_through_another_node_wins() {
    let server = Server::galera().await;
    let (_node, _leadership, client) = guarded(&server).await;
    let _other = soon("the end of the session", server.displace(2, "a")).await;
    came_too_late(&server, client).await;
}

/// A node that is behind has not yet heard of the takeover when a guarded transaction commits there: no lock could tell it, only the comparison of what
/// was written.
async fn while_behind(change: impl AsyncFnOnce(&Server)) {
    let server = Server::galera().await;
    let (_node, _leadership, client) = guarded(&server).await;
    let mut other = server.client(2).await;
    other.run("CREATE TABLE much (line INT PRIMARY KEY)").await;
    other.run("INSERT INTO much SELECT seq FROM seq_1_to_200000").await;
    change(&server).await;
    came_too_late(&server, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_takeover_wins_before_it_is_heard_of() {
    while_behind(async |server| {
        let other = server.join(2, "b").await;
        soon("deposing", other.election("e").unwrap().depose()).await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_session_wins_before_it_is_heard_of() {
    while_behind(async |server| {
        soon("the end of the session", server.displace(2, "a")).await;
    })
    .await;
}

/// Both at once, many times: never does a guarded transaction follow a takeover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_guarded_follows_a_takeover_through_another_node() {
    const ROUNDS: u64 = 8;
    let server = Server::galera().await;
    let (first, second) = (server.join(0, "a").await, server.join(2, "b").await);
    let mut client = server.client(1).await;
    for round in 0..ROUNDS {
        let leadership = soon("winning", first.election("e").unwrap().campaign()).await.unwrap();
        let term = leadership.term().0;
        let worker = tokio::spawn(async move {
            let mut count = 0;
            loop {
                match client.work("e", term).await {
                    Ok(()) => count += 1,
                    Err(refusal) if refusal.state == "40001" => {}
                    Err(refusal) => {
                        assert_eq!(refusal.state, FENCED, "{refusal:?}");
                        return (client, count);
                    }
                }
            }
        });
        let before = server.lines().await;
        soon("deposing", second.election("e").unwrap().depose()).await.unwrap();
        let mut reader = server.client(2).await;
        let at_takeover = reader.count("SELECT line FROM work").await;
        let (same, _) = soon("the worker", worker).await.unwrap();
        client = same;
        drop(leadership);
        let after = server.client(1).await.count("SELECT line FROM work").await;
        assert!(before <= at_takeover);
        assert_eq!(after, at_takeover, "round {round}: lines against what there was at the takeover");
    }
    assert!(server.lines().await > 0);
}

/// A guarded transaction that commits first is not undone, and the takeover follows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_transaction_that_commits_first_stays() {
    let server = Server::galera().await;
    let (_node, _leadership, mut client) = guarded(&server).await;
    client.commit().await.unwrap();
    let other = server.join(2, "b").await;
    let office = other.election("e").unwrap();
    soon("deposing", office.depose()).await.unwrap();
    let _next = soon("the next leader", office.campaign()).await.unwrap();
    assert_eq!(client.work("e", 1).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
}

/// Guards leave what they wrote as it was, at every node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_change_nothing() {
    let server = Server::galera().await;
    let (_node, _leadership, mut client) = guarded(&server).await;
    client.commit().await.unwrap();
    for node in 0..3 {
        let mut reader = server.client(node).await;
        let odd = reader.count("SELECT name FROM tenure_kv WHERE weight <> LENGTH(name) + LENGTH(value)");
        assert_eq!(odd.await, 0, "node {node}");
    }
}
