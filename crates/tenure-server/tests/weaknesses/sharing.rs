//! 14: several consumers.

use std::{collections::BTreeSet, time::Duration};

use crate::fleet::{Fleet, Say, World, said, status, until, word};

#[tokio::test(start_paused = true)]
async fn w14_idle_consumers_are_not_woken_by_what_is_sent_to_others() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let worlds = [a.serve(World::default()), b.serve(World::default())];
    let journal = client.journal("j");
    fleet.env.sleep(Duration::from_secs(3)).await;
    journal.call(word("first")).await.unwrap();
    let idle = if worlds[0].ran() > 0 { &b } else { &a };
    let start = (idle.counted.reads(), idle.counted.commits());
    for _ in 0..200 {
        journal.call(Say::Attempt).await.unwrap();
        fleet.env.sleep(Duration::from_millis(5)).await;
    }
    let asked = (idle.counted.reads() - start.0, idle.counted.commits() - start.1);
    assert!(asked.0 < 20 && asked.1 < 5, "200 messages made an idle consumer ask {asked:?} times");
    assert_eq!(worlds.iter().map(|world| world.ran()).sum::<u64>(), 201, "each ran once");
}

#[tokio::test(start_paused = true)]
async fn w14_servers_are_shared_by_all_consumers_and_taken_over() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let worlds = [a.serve(World::default()), b.serve(World::default())];
    fleet.env.sleep(Duration::from_secs(3)).await;
    let journals: Vec<_> = (0..40).map(|number| client.journal(&format!("{number}-journal"))).collect();
    for journal in &journals {
        journal.call(word("one")).await.unwrap();
    }
    let ran = worlds.each_ref().map(|world| world.ran());
    assert!(ran[0] >= 5 && ran[1] >= 5 && ran[0] + ran[1] == 40, "{ran:?}");
    a.kill();
    for journal in &journals {
        journal.cast(word("two")).await.unwrap();
    }
    for journal in &journals {
        until(&fleet.env, || async { said(journal).await.len() == 2 }).await;
    }
    let names: BTreeSet<String> =
        tenure_server::Serve::servers::<crate::fleet::Journal>(&client.cluster, None, 100)
            .await
            .unwrap()
            .iter()
            .map(ToString::to_string)
            .collect();
    assert_eq!(names.len(), 40);
}

#[tokio::test(start_paused = true)]
async fn w14_consumers_do_not_fight_for_the_head_of_a_queue() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    let worlds = [a.serve(World::default()), b.serve(World::default())];
    fleet.env.sleep(Duration::from_secs(3)).await;
    let journal = client.journal("j");
    let delay = tenure_store::Faults { delay: Duration::from_millis(2), ..tenure_store::Faults::NONE };
    for seat in [&a, &b, &client] {
        seat.link.set_faults(delay);
    }
    let (near, far) = (a.journal("j"), b.journal("j"));
    let before = a.counted.commits() + b.counted.commits();
    // Callers on both of them, and elsewhere.
    for _ in 0..50 {
        let (one, two, three) =
            tokio::join!(near.call(Say::Attempt), far.call(Say::Attempt), journal.call(Say::Attempt));
        one.unwrap();
        two.unwrap();
        three.unwrap();
    }
    let commits = a.counted.commits() + b.counted.commits() - before;
    assert_eq!(status(&journal).await.applied, 150);
    assert_eq!(said(&journal).await.len(), 150);
    assert!(commits <= 300, "{commits} commits for 150 messages");
    let ran: u64 = worlds.iter().map(|world| world.ran()).sum();
    assert!(ran <= 300, "callbacks ran {ran} times for 150 messages");
}
