//! Names: registered, looked up, taken, free again.

use std::time::Duration;

use tenure_registry::{RegistryError, mailbox};

use crate::fleet::{Fleet, eventually};

#[tokio::test]
async fn a_name_is_known_everywhere_and_answers_from_everywhere() {
    let nodes = Fleet::new().nodes(3).await;
    for (number, node) in nodes.iter().enumerate() {
        let (mailbox, mut inbox) = mailbox::<u64, u64>(8);
        let name = format!("doubler-{number}");
        let registration = node.registry.register(&name, &mailbox).await.unwrap();
        tokio::spawn(async move {
            let _registration = registration;
            while let Some(letter) = inbox.recv().await {
                let twice = letter.message * 2;
                letter.reply(&twice).unwrap();
            }
        });
        assert!(node.registry.whereis(&name).is_some());
    }
    for node in &nodes {
        for number in 0..3 {
            let name = format!("doubler-{number}");
            eventually("known", || node.registry.whereis(&name).is_some()).await;
            let twice: u64 = node.registry.call(&name, &21_u64, Duration::from_secs(5)).await.unwrap();
            assert_eq!(twice, 42);
            node.registry.send(&name, &1_u64).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_name_that_is_taken_says_by_whom_and_is_free_when_it_is_dropped() {
    let nodes = Fleet::new().nodes(2).await;
    let (one, _inbox) = mailbox::<(), ()>(1);
    let (other, _other_inbox) = mailbox::<(), ()>(1);
    let registration = nodes[0].registry.register("x", &one).await.unwrap();
    match nodes[1].registry.register("x", &other).await {
        Err(RegistryError::Taken { name, by }) => {
            assert_eq!((name.as_str(), by.node.as_str()), ("x", "n0"));
        }
        unexpected => panic!("{unexpected:?}"),
    }
    drop(registration);
    eventually("free", || nodes[1].registry.whereis("x").is_none()).await;
    nodes[1].registry.register("x", &other).await.unwrap();
}

#[tokio::test]
async fn a_node_without_links_registers_and_looks_up() {
    let fleet = Fleet::new();
    let nodes = fleet.nodes(2).await;
    let lonely = fleet.node_without_links("lonely").await;
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let registration = lonely.registry.register("far", &mailbox).await.unwrap();
    assert_eq!(lonely.registry.whereis("far").unwrap().owner().node.as_str(), "lonely");
    eventually("known", || nodes[1].registry.whereis("far").is_some()).await;
    let refused = nodes[1].registry.send("far", &()).await.unwrap_err().to_string();
    assert!(refused.contains("no address") && refused.contains("links"), "{refused}");
    registration.unregister(Duration::from_secs(5)).await.unwrap();
    eventually("free", || nodes[1].registry.whereis("far").is_none()).await;
}

#[tokio::test]
async fn names_survive_their_leader_and_go_with_their_owner() {
    let fleet = Fleet::new();
    let mut nodes = fleet.nodes(3).await;
    let (mailbox, _inbox) = mailbox::<(), ()>(1);
    let _kept = nodes[1].registry.register("kept", &mailbox).await.unwrap();
    let gone = nodes[0].registry.register("gone", &mailbox).await;
    assert!(gone.is_ok());
    let leader = nodes.remove(0);
    assert!(leader.registry.status().leads());
    drop((gone, leader));
    eventually("led", || nodes.iter().any(|node| node.registry.status().leads())).await;
    eventually("free", || nodes.iter().all(|node| node.registry.whereis("gone").is_none())).await;
    assert!(nodes.iter().all(|node| node.registry.whereis("kept").is_some()));
    for (number, node) in nodes.iter().enumerate() {
        let (mailbox, _inbox) = tenure_registry::mailbox::<(), ()>(1);
        node.registry.register(&format!("later-{number}"), &mailbox).await.unwrap();
    }
}
