//! What a follower makes of what it is told.

use std::{sync::Arc, time::Duration};

use tenure_cluster::{Cluster, SessionId, Settings};
use tenure_store::{Env, MemoryStore, Store};

use super::*;
use crate::{
    Metadata, Registries as _, Registry, RegistryError,
    batch::{Batch, Change},
    message::{Question, Reply},
    request::{Words, ask},
};

async fn node(store: &Arc<MemoryStore>, env: &Env, name: &str) -> (Cluster, Registry) {
    let mut settings = Settings::new("c", name).unwrap();
    settings.proof_of_death = false;
    let store = Arc::clone(store) as Arc<dyn Store>;
    let cluster = Cluster::join_in(store, settings, env.fork()).await.unwrap();
    let registry = cluster.registry_over("names", None).await.unwrap();
    registry.ready(Duration::from_secs(5)).await.unwrap();
    (cluster, registry)
}

/// A batch that nobody has committed.
fn forged(epoch: u64) -> bytes::Bytes {
    let mut batch = Batch { epoch, ..Batch::default() };
    let owner = Owner { node: "x".parse().unwrap(), session: SessionId::from_bytes([7; SessionId::BYTES]) };
    let name = "forged".parse().unwrap();
    batch.add(&owner, 1, Change::Register { name, number: 1, metadata: Metadata::new() });
    batch.encode(0)
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_an_older_epoch_is_not_followed() {
    let (env, store) = (Env::simulated(3), Arc::new(MemoryStore::new()));
    let (_first, _leader) = node(&store, &env, "a").await;
    let (_second, follower) = node(&store, &env, "b").await;
    let member = &follower.member;
    let (position, epoch) = (member.names.position(), member.seen.borrow().led.epoch);
    let stream = |epoch: u64| Stream {
        epoch,
        tail: position + 5,
        batches: vec![(position + 1, forged(epoch))],
        answers: Vec::new(),
    };
    follow(member, stream(epoch - 1)).await;
    assert_eq!((follower.whereis("forged"), follower.status().tail), (None, position), "too old");
    // A gap is read from the store, where there is nothing of the kind.
    let far = Stream { batches: vec![(position + 2, forged(epoch))], ..stream(epoch) };
    follow(member, far).await;
    assert_eq!((follower.whereis("forged"), member.names.position()), (None, position), "a gap");
    let garbled = Stream { batches: vec![(position + 1, "?".into())], ..stream(epoch) };
    follow(member, garbled).await;
    assert_eq!(member.names.position(), position, "not understood");
    follow(member, stream(epoch)).await;
    assert!(follower.whereis("forged").is_some(), "the present leader's word counts");
}

#[tokio::test(start_paused = true)]
async fn a_call_to_lead_counts_in_its_own_epoch_only() {
    let (env, store) = (Env::simulated(3), Arc::new(MemoryStore::new()));
    let (_first, leader) = node(&store, &env, "a").await;
    let (_second, follower) = node(&store, &env, "b").await;
    let epoch = leader.status().epoch;
    let assume = |epoch, position| Question::AssumeAndDistribute { epoch, position, members: Vec::new() };
    let answers = async |registry: &Registry, question| registry.member.answer(question).await;
    assert_eq!(answers(&leader, assume(epoch, 0)).await, Reply::Assumed);
    for (registry, wrong) in
        [(&leader, epoch - 1), (&leader, epoch + 1), (&follower, epoch), (&follower, epoch + 1)]
    {
        let refused = answers(registry, assume(wrong, 0)).await;
        assert!(matches!(&refused, Reply::Refused(why) if why.contains(&wrong.to_string())), "{refused:?}");
    }
    // What the old leader knew to be committed must be there.
    let refused = answers(&leader, assume(epoch, 1000)).await;
    assert!(matches!(&refused, Reply::Refused(why) if why.contains("1000")), "{refused:?}");
    assert!(leader.member.leads_for_sure() && !follower.member.leads_for_sure());
    assert!(matches!(answers(&leader, Question::Whereis("x".parse().unwrap())).await, Reply::Found(None)));
    let unproven = answers(&follower, Question::Whereis("x".parse().unwrap())).await;
    assert!(matches!(unproven, Reply::Refused(_)), "{unproven:?}");
    // A transfer to an epoch that is over takes nothing away; one to the next does, at once.
    answers(&leader, Question::TransferSnapshot { epoch }).await;
    assert!(leader.member.leads_for_sure());
    let transferred = answers(&leader, Question::TransferSnapshot { epoch: epoch + 1 }).await;
    assert_eq!(transferred, Reply::Transferred(leader.member.names.position()));
    assert!(!leader.member.leads_for_sure());
}

#[tokio::test(start_paused = true)]
async fn what_was_never_sent_was_not_done() {
    let (env, store) = (Env::simulated(3), Arc::new(MemoryStore::new()));
    let (_first, leader) = node(&store, &env, "a").await;
    let member = &leader.member;
    // As before anybody was elected.
    member.transfer_snapshot(u64::MAX).await;
    member.seen.send_replace(crate::member::Seen::default());
    let name = "x".parse().unwrap();
    let words = Words::new("taking back the registration of", &name);
    let asked = ask(member, member.me(), words, |_| Change::Unregister { name, number: 1 }).unwrap();
    let refused = asked.outcome(Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(refused, RegistryError::Unavailable { .. }) && refused.is_transient(), "{refused}");
}
