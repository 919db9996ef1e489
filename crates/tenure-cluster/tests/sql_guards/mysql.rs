//! What only MySQL and MariaDB must do.

use tenure_cluster::sql::FENCED;
use tenure_store::{Commit, Store as _, Tuple};

use crate::server::{Client, Kind, Server, soon};

#[tokio::test]
async fn a_guard_without_a_transaction_is_refused() {
    let server = Server::mariadb().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let mut client = server.client(0).await;
    let refusal = client.guard("c", "e", 1).await.unwrap_err();
    assert_eq!(refusal.state, "TN002", "{refusal:?}");
    assert!(refusal.message.contains("START TRANSACTION"), "{refusal:?}");
    // After one is before one.
    client.work("e", 1).await.unwrap();
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, "TN002");
    // Where every statement begins one, there is one.
    client.run("SET autocommit = 0").await;
    client.guard("c", "e", 1).await.unwrap();
    client.write().await.unwrap();
    client.commit().await.unwrap();
    assert_eq!(server.lines().await, 2);
}

/// What a refused transaction had written is gone, though its client goes on as if nothing had happened.
#[tokio::test]
async fn a_refusal_rolls_back() {
    let server = Server::mariadb().await;
    let node = server.join(0, "a").await;
    node.election("e").unwrap().campaign().await.unwrap().resign().await.unwrap();
    let mut client = server.client(0).await;
    client.begin(None).await;
    client.write().await.unwrap();
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, FENCED);
    // This commits whatever transaction is open.
    client.begin(None).await;
    client.commit().await.unwrap();
    assert_eq!(server.lines().await, 0);
}

/// A guard that finds nothing locks nothing, as long as the client takes to roll back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_in_nobodys_way() {
    let server = Server::mariadb().await;
    let node = server.join(0, "a").await;
    let leadership = node.election("e").unwrap().campaign().await.unwrap();
    let _other = server.displace(0, "a").await;
    let mut client = server.client(0).await;
    client.run("SET autocommit = 0").await;
    assert_eq!(client.guard("c", "unknown", 1).await.unwrap_err().state, FENCED);
    assert_eq!(client.guard("c", "e", 1).await.unwrap_err().state, FENCED);
    drop(leadership);
    for name in ["b", "d", "e", "f", "g", "h"] {
        let node = soon("joining", server.join(0, name)).await;
        soon("winning", node.election(&format!("unknow{name}")).unwrap().campaign()).await.unwrap();
    }
}

#[tokio::test]
async fn names_are_never_cut_off() {
    let server = Server::mariadb().await;
    let longest = "x".repeat(255);
    let node = server.join(0, "a").await;
    let _leadership = node.election(&longest).unwrap().campaign().await.unwrap();
    for mode in ["", "STRICT_ALL_TABLES", "ANSI,NO_BACKSLASH_ESCAPES"] {
        let mut client = server.client(0).await;
        client.run(&format!("SET sql_mode = '{mode}'")).await;
        // The mode that counts is the one it was made in.
        client.run("DROP PROCEDURE tenure_guard").await;
        client.run(&server.guard()).await;
        client.work(&longest, 1).await.unwrap();
        for more in ["x", " ", "\0", "\u{1}", &"y".repeat(70_000)] {
            let refusal = client.work(&format!("{longest}{more}"), 1).await.unwrap_err();
            assert_eq!(refusal.state, FENCED, "{mode}");
        }
        assert_eq!(client.work("x\0", 1).await.unwrap_err().state, FENCED);
    }
}

/// Bytes that end a part of a key do not end it when they are in a name.
#[tokio::test]
async fn names_cannot_reach_other_keys() {
    let server = Server::mariadb().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let store = server.store(0).await;
    let mut office = vec![1, 0, 0, 0, 0, 0, 0, 0, 1];
    office.extend_from_slice(&node.session().id().to_bytes());
    let forged = Tuple::new().text("tenure").text("c").text("election").text("e").text("f").key();
    store.commit(Commit::new().set(forged, office)).await.unwrap();
    let mut client = server.client(0).await;
    assert_eq!(client.work("e\0\u{11}f", 1).await.unwrap_err().state, FENCED);
    client.work("e", 1).await.unwrap();
}

#[tokio::test]
async fn callers_need_one_right() {
    let server = Server::mariadb().await;
    let node = server.join(0, "a").await;
    let _leadership = node.election("e").unwrap().campaign().await.unwrap();
    let name = &server.name;
    let user = name.chars().take(30).collect::<String>();
    let mut owner = server.client(0).await;
    owner.run(&format!("CREATE USER {user}@'%'")).await;
    owner.run(&format!("GRANT INSERT ON {name}.work TO {user}@'%'")).await;
    owner.run(&format!("GRANT EXECUTE ON PROCEDURE {name}.tenure_guard TO {user}@'%'")).await;
    let (_, host) = server.url(0).split_once('@').unwrap();
    let mut client = Client::connect(Kind::Mysql, &format!("mysql://{user}@{host}")).await;
    client.work("e", 1).await.unwrap();
    assert_eq!(client.work("e", 2).await.unwrap_err().state, FENCED);
    assert_eq!(server.lines().await, 1);
    drop(client);
    owner.run(&format!("DROP USER {user}@'%'")).await;
}

/// Programs may make it whenever they start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_can_be_made_again_and_at_once() {
    let server = Server::mariadb().await;
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
