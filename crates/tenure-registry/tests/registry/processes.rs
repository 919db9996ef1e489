//! Several processes' views of one file: each node has a store of its own on it.

use std::{sync::Arc, time::Duration};

use tenure_registry::{RegistryError, mailbox};
use tenure_sqlite::SqliteStore;

use crate::fleet::{Fleet, Node, eventually};

async fn node(directory: &tempfile::TempDir, name: &str, links: bool) -> Node {
    let url = format!("sqlite:{}", directory.path().join("names.db").display());
    let store = SqliteStore::open(&url).await.unwrap();
    let fleet = Fleet { store: Arc::new(store) };
    let node = if links { fleet.node(name).await } else { fleet.node_without_links(name).await };
    node.registry.ready(Duration::from_secs(20)).await.unwrap();
    node
}

#[tokio::test]
async fn nodes_that_share_only_a_file_have_one_registry() {
    let directory = tempfile::tempdir().unwrap();
    let first = node(&directory, "n0", true).await;
    let second = node(&directory, "n1", true).await;
    let lonely = node(&directory, "lonely", false).await;
    let nodes = [&first, &second, &lonely];
    let mut held = Vec::new();
    for (number, node) in nodes.into_iter().enumerate() {
        let (mailbox, inbox) = mailbox::<u64, ()>(4);
        let name = format!("x{number}");
        held.push((node.registry.register(&name, &mailbox).await.unwrap(), inbox));
        for other in nodes {
            let entry = other.registry.whereis_consistent(&name).await.unwrap().unwrap();
            assert_eq!(entry.owner().session, node.cluster.session().id());
        }
        let (again, _inbox) = tenure_registry::mailbox::<(), ()>(1);
        let taken = nodes[(number + 1) % 3].registry.register(&name, &again).await;
        assert!(matches!(taken, Err(RegistryError::Taken { .. })), "{taken:?}");
    }
    // The leader goes without a word; its names go with it, and those of the others stay.
    drop(first);
    eventually("free", || second.registry.whereis("x0").is_none() && lonely.registry.whereis("x0").is_none())
        .await;
    let late = node(&directory, "late", true).await;
    assert!(late.registry.whereis("x1").is_some() && late.registry.whereis("x2").is_some());
    late.registry.send("x1", &3_u64).await.unwrap();
    assert_eq!(held[1].1.recv().await.unwrap().message, 3);
}
