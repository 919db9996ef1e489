//! What only PostgreSQL must do.

use tenure_cluster::{
    Keys,
    sql::{self, FENCED},
};
use tenure_store::{Commit, Range, Store as _, Tuple};

use crate::{
    cases::{busy, office},
    server::{Client, Kind, Server, soon},
};

/// What a store's commits lock, a guard locks too: the numbers of `tenure-postgres`, which never change.
#[tokio::test]
async fn locks_have_the_numbers_of_the_store() {
    let server = Server::postgres().await;
    let mut client = server.client(0).await;
    client
        .run(&sql::postgres_guard("tenure").unwrap().replace("tenure.", &format!("{}.", server.name)))
        .await;
    let found = client
        .count("SELECT 1 WHERE guard_lock('w', 'key') = 1668653356113254030 AND guard_lock('g', '') = 1281104578517259643");
    assert_eq!(found.await, 1);
}

/// The deletion of a range takes the gate alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_office_can_be_deleted() {
    let server = Server::postgres().await;
    let store = server.store(0).await;
    let deletion = Commit::new().delete_range(Tuple::new().text("tenure").range());
    busy(&server, async { store.commit(deletion).await.unwrap() }).await;
}

/// So large a commit takes the gate instead of all its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_office_can_be_changed_with_many_others() {
    let server = Server::postgres().await;
    let store = server.store(0).await;
    let key = |name: &str| Keys::new(&"c".parse().unwrap()).election(&name.parse().unwrap());
    let others = (0..300).fold(Commit::new(), |all, number| all.set(key(&format!("{number}")), "v"));
    let change = others.set(key("e"), office(2, [0; 16]));
    busy(&server, async { store.commit(change).await.unwrap() }).await;
}

/// What is deleted with its range has no lock but its row's.
async fn the_deletion_of_all_waits(part: &str) {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.guard("c", "e", 1).await.unwrap();
    let store = server.store(0).await;
    let range = Tuple::new().text("tenure").text("c").text(part).range();
    let deleting =
        tokio::spawn(async move { store.commit(Commit::new().delete_range(range)).await.unwrap() });
    server.until_a_commit_waits().await;
    client.write().await.unwrap();
    client.commit().await.unwrap();
    soon("the deletion", deleting).await.unwrap();
    assert_eq!(client.work("e", 1).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_all_sessions_waits() {
    the_deletion_of_all_waits("session").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_deletion_of_all_elections_waits() {
    the_deletion_of_all_waits("election").await;
}

/// A guard that is repeated does not wait for a commit that has the gate and waits for the guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_may_be_repeated_while_the_gate_is_closed() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.guard("c", "e", 1).await.unwrap();
    let store = server.store(0).await;
    let deleting = tokio::spawn(async move {
        store.commit(Commit::new().delete_range(Range::all())).await.unwrap();
    });
    server.until_a_commit_waits().await;
    soon("the second guard", client.guard("c", "e", 1)).await.unwrap();
    client.write().await.unwrap();
    client.commit().await.unwrap();
    soon("the deletion", deleting).await.unwrap();
    assert_eq!(client.work("e", 1).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
}

/// The gate is not kept: a deletion elsewhere does not wait for a guarded transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gate_is_only_passed() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.guard("c", "e", 1).await.unwrap();
    let store = server.store(0).await;
    let elsewhere = Commit::new().delete_range(Tuple::new().text("elsewhere").range());
    soon("a deletion elsewhere", store.commit(elsewhere)).await.unwrap();
    client.commit().await.unwrap();
}

/// The end of a guard that the documentation warns of; calling it again is a new guard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_goes_with_its_savepoint() {
    let server = Server::postgres().await;
    let (first, second) = (server.join(0, "a").await, server.join(0, "b").await);
    let _leadership = first.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.run("SAVEPOINT earlier").await;
    client.guard("c", "e", 1).await.unwrap();
    client.run("ROLLBACK TO SAVEPOINT earlier").await;
    soon("deposing", second.election("e").unwrap().depose()).await.unwrap();
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, FENCED);
}

#[tokio::test]
async fn transactions_that_only_read_are_refused() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.run("BEGIN READ ONLY").await;
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, "25006");
}

/// A statement alone is a transaction: a guard in it guards it.
#[tokio::test]
async fn one_statement_can_be_guarded() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    client.run("INSERT INTO work SELECT 'x' FROM tenure_guard('c', 'e', 1)").await;
    let refused = client.try_run("INSERT INTO work SELECT 'x' FROM tenure_guard('c', 'e', 2)").await;
    assert_eq!(refused.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
}

/// Whoever vanishes in a guarded transaction is given up, unless there is a setting for that already; and the setting ends with the transaction.
#[tokio::test]
async fn clients_that_vanish_are_given_up() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    for (before, within, after) in [("0", "15s", "0"), ("7s", "7s", "7s"), ("1h", "1h", "1h")] {
        client.run(&format!("SET idle_in_transaction_session_timeout = '{before}'")).await;
        client.begin(None).await;
        client.guard("c", "e", 1).await.unwrap();
        client.write().await.unwrap();
        let setting = "current_setting('idle_in_transaction_session_timeout')";
        assert_eq!(client.count(&format!("SELECT 1 WHERE {setting} = '{within}'")).await, 1, "{before}");
        client.commit().await.unwrap();
        assert_eq!(client.count(&format!("SELECT 1 WHERE {setting} = '{after}'")).await, 1, "{before}");
    }
}

/// The caller needs no right to the tables, and what it has put before the functions of PostgreSQL is not called with the owner's rights.
#[tokio::test]
async fn callers_need_one_right_and_cannot_mislead() {
    let server = Server::postgres().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let (name, role) = (&server.name, format!("{}_role", server.name));
    let mut owner = server.client(0).await;
    owner
        .run(&format!(
            "CREATE ROLE {role} LOGIN; CREATE SCHEMA {role} AUTHORIZATION {role}; \
             GRANT USAGE ON SCHEMA {name} TO {role}; GRANT INSERT ON work TO {role}"
        ))
        .await;
    let (_, host) = server.url(0).split_once('@').unwrap();
    let mut client = Client::connect(Kind::Postgres, &format!("postgres://{role}@{host}")).await;
    client.run(&format!("SET search_path = pg_temp, {role}, pg_catalog, {name}")).await;
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, "42501");
    owner.run(&format!("GRANT EXECUTE ON FUNCTION tenure_guard TO {role}")).await;
    client
        .run(&format!(
            "CREATE TEMPORARY TABLE kv (key bytea, value bytea); \
             CREATE FUNCTION {role}.convert_to(text, name) RETURNS bytea LANGUAGE sql AS $$ SELECT ''::bytea $$"
        ))
        .await;
    client.run("BEGIN").await;
    client.write().await.unwrap();
    client.guard("c", "e", 1).await.unwrap();
    client.commit().await.unwrap();
    assert_eq!(client.guard("c", "e", 2).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
    drop(client);
    owner.run(&format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}

/// Programs may make it whenever they start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_made_again_and_at_once() {
    let server = Server::postgres().await;
    let mut making = Vec::new();
    for _ in 0..4 {
        let (mut client, guard) = (server.client(0).await, server.guard());
        making.push(tokio::spawn(async move {
            for _ in 0..5 {
                client.run(&guard).await;
            }
        }));
    }
    for one in making {
        soon("making it", one).await.unwrap();
    }
}
