//! What becomes of those who wait for a server that is deleted, and of what they leave; and that what was deleted stays so, though somebody has it in hand.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::{bent::Bend, *};
use tenure_server::*;
use tenure_store::{Commit, Faults, Key, Limited, Limits, MemoryStore, Write};
use tokio::task::JoinHandle;

type Asking = JoinHandle<Result<Vec<String>, ServerError>>;

fn patient() -> CallOptions {
    CallOptions::default().timeout(Duration::from_secs(600))
}
fn ask(journal: &ServerRef<Journal>, say: Say, options: CallOptions) -> Asking {
    let journal = journal.clone();
    tokio::spawn(async move { journal.call_with(say, options).await })
}
/// The head of a journal.
fn head(fleet: &Fleet, id: &str) -> Key {
    fleet.area("head").text(Journal::KIND).text(id).key()
}
fn deletes(commit: &Commit, key: &Key) -> bool {
    commit.writes.iter().any(|write| matches!(write, Write::Delete(deleted) if deleted == key))
}
/// It was told of the deletion, and not by a timeout.
async fn is_told(fleet: &Fleet, asking: Asking) {
    let told = fleet.env.timeout(Duration::from_secs(5), asking).await;
    assert!(matches!(told, Ok(Ok(Err(ServerError::Deleted(_))))), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn the_message_that_makes_a_server_is_handled_once_though_the_server_is_deleted_before_its_maker_looks()
{
    for (say, is_left) in [(word("x"), true), (Say::Delete, false)] {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        let world = a.serve(World::default());
        fleet.env.sleep(Duration::from_secs(3)).await;
        let first = head(&fleet, "j");
        let of_it = move |commit: &Commit| commit.writes.iter().any(|write| write.range().contains(&first));
        a.bent.bend(move |commit| if of_it(commit) { Bend::Landed } else { Bend::Pass });
        let asking = ask(&a.journal("j"), say, patient());
        until(&fleet.env, || async { a.bent.bent() == 1 }).await;
        a.bent.straighten();
        assert_eq!(client.journal("j").delete().await.unwrap(), is_left);
        a.bent.let_go();
        let answer = asking.await.unwrap().unwrap();
        assert_eq!((answer.len(), world.ran()), (usize::from(is_left), 1), "{answer:?}");
        assert_eq!(client.journal("j").status().await.unwrap(), None);
        fleet.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(fleet.left().await, words(&[]));
        // And one that never happened is made again.
        let first = head(&fleet, "k");
        let of_it = move |commit: &Commit| commit.writes.iter().any(|write| write.range().contains(&first));
        a.bent.bend(move |commit| if of_it(commit) { Bend::Kept } else { Bend::Pass });
        let asking = ask(&a.journal("k"), word("y"), patient());
        until(&fleet.env, || async { a.bent.bent() >= 2 }).await;
        a.bent.straighten();
        assert_eq!(asking.await.unwrap().unwrap(), words(&["y"]));
        assert!(a.bent.land_kept().await.is_err(), "it can't come late");
    }
}

#[tokio::test(start_paused = true)]
async fn many_servers_are_made_at_once() {
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    a.serve(World::default());
    a.link.set_faults(Faults { delay: Duration::from_millis(20), unknown_landed: 0.2, ..Faults::NONE });
    let asking: Vec<Asking> =
        (0..100).map(|number| ask(&a.journal(&format!("j{number}")), word("x"), patient())).collect();
    for asking in asking {
        assert_eq!(asking.await.unwrap().unwrap(), words(&["x"]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_appended_while_its_server_is_deleted_is_told() {
    for by_itself in [false, true] {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        a.serve(World::default());
        a.journal("j").call(word("x")).await.unwrap();
        assert!(client.journal("j").stop("wait").await.unwrap());
        let of_it = head(&fleet, "j");
        let rule = move |commit: &Commit| if deletes(commit, &of_it) { Bend::Wait } else { Bend::Pass };
        let operator = fleet.join("operator").await;
        let deleter = if by_itself { &a } else { &operator };
        deleter.bent.bend(rule);
        let deleting = deleter.journal("j");
        let deleting = tokio::spawn(async move {
            match by_itself {
                true => deleting.priority_call(Say::Delete, patient()).await.is_ok(),
                false => deleting.delete().await.unwrap(),
            }
        });
        until(&fleet.env, || async { deleter.bent.bent() == 1 }).await;
        let asking = ask(&client.journal("j"), word("y"), patient());
        until(&fleet.env, || async { fleet.entries("queue", "j").await == 1 }).await;
        deleter.bent.straighten();
        deleter.bent.let_go();
        assert!(deleting.await.unwrap());
        is_told(&fleet, asking).await;
        fleet.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(fleet.left().await, words(&[]));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_is_deleted_though_messages_come_all_the_time() {
    for by_itself in [false, true] {
        let fleet = Fleet::new();
        let (a, client, operator) =
            (fleet.join("a").await, fleet.join("client").await, fleet.join("operator").await);
        a.serve(World::default());
        a.journal("j").call(word("x")).await.unwrap();
        assert!(client.journal("j").stop("wait").await.unwrap());
        for seat in [&a, &operator] {
            seat.link.set_faults(Faults { delay: Duration::from_millis(20), ..Faults::NONE });
        }
        let (journal, env) = (client.journal("j"), fleet.env.clone());
        let sending = tokio::spawn(async move {
            loop {
                // It is full at times.
                let _ = journal.cast(word("y")).await;
                env.sleep(Duration::from_millis(2)).await;
            }
        });
        let journal = if by_itself { a.journal("j") } else { operator.journal("j") };
        let deleting = async {
            match by_itself {
                true => journal.priority_call(Say::Delete, patient()).await.is_ok(),
                false => journal.delete().await.unwrap(),
            }
        };
        assert!(fleet.env.timeout(Duration::from_secs(9), deleting).await.unwrap());
        sending.abort();
    }
}

/// Has callers wait for answers that come later, of journal `j`: from afar, from its own node, and of one that sent the
/// address to another journal, which is stopped.
async fn hold(fleet: &Fleet, a: &Seat, client: &Seat) -> Vec<Asking> {
    a.serve(World::default());
    a.journal("other").call(word("x")).await.unwrap();
    assert!(a.journal("other").stop("wait").await.unwrap());
    let (j, entrust) = (client.journal("j"), Say::Entrust("other".into()));
    let mut asking = vec![ask(&j, entrust, patient())];
    for (seat, key) in [(client, None), (a, None), (client, Some("k")), (a, Some("l"))] {
        let mut options = patient();
        options.idempotency_key = key.map(str::to_owned);
        asking.push(ask(&seat.journal("j"), Say::Hold, options));
        fleet.env.sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(fleet.store_keys("owed").await.len(), 5);
    asking
}

#[tokio::test(start_paused = true)]
async fn those_who_were_to_be_answered_later_are_told_of_a_deletion() {
    for by_itself in [false, true] {
        let fleet = Fleet::new();
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        let asking = hold(&fleet, &a, &client).await;
        match by_itself {
            true => drop(a.journal("j").call(Say::Delete).await.unwrap()),
            false => assert!(fleet.join("operator").await.journal("j").delete().await.unwrap()),
        }
        for asking in asking {
            is_told(&fleet, asking).await;
        }
        fleet.env.sleep(Duration::from_secs(5)).await;
        let left = fleet.left().await;
        assert!(left.iter().all(|key| key.contains("other")), "{left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_given_later_is_owed_no_more() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let j = client.journal("j");
    let by_itself = ask(&j, Say::Hold, patient());
    fleet.env.sleep(Duration::from_secs(1)).await;
    j.call(Say::Release).await.unwrap();
    assert_eq!(by_itself.await.unwrap().unwrap(), words(&["released"]));
    assert_eq!(j.call_with(Say::Entrust("other".into()), patient()).await.unwrap()[0].len(), 300_000);
    let by_a_node = ask(&j, Say::Hold, patient());
    fleet.env.sleep(Duration::from_secs(1)).await;
    let waiting = j.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
    a.cluster.reply(&waiting, &words(&["one"])).await.unwrap();
    assert_eq!(by_a_node.await.unwrap().unwrap(), words(&["one"]));
    assert_eq!(fleet.store_keys("owed").await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_nobody_gives_is_owed_until_its_caller_has_given_up() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    for seconds in [1, 200] {
        let options = CallOptions::default().timeout(Duration::from_secs(seconds));
        assert!(client.journal("j").call_with(Say::Hold, options).await.is_err());
        assert_eq!(fleet.store_keys("owed").await.len(), 1, "its caller has just given up");
        fleet.env.sleep(Duration::from_secs(90)).await;
        assert_eq!((fleet.store_keys("owed").await, fleet.store_keys("due").await), (vec![], vec![]));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_its_idempotency_key_was_used_again_leaves_nothing() {
    let portable = Limited::new(MemoryStore::new(), Limits::PORTABLE);
    let fleet = Fleet::over(portable);
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let (j, key) = (client.journal("j"), || CallOptions::default().idempotency_key("k"));
    j.call_with(Say::Hold, key()).await.unwrap_err();
    let waiting = j.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
    fleet.env.sleep(Duration::from_secs(601)).await;
    j.call_with(word("x"), key()).await.unwrap();
    client.cluster.reply(&waiting, &vec!["x".repeat(300_000)]).await.unwrap();
    j.cast(Say::Answer(waiting, 300_000)).await.unwrap();
    fleet.env.sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.store_keys("piece").await, words(&[]));
    assert_eq!(
        j.call_with(word("y"), key()).await.unwrap(),
        words(&["x"]),
        "the answer under it is the new one"
    );
    // Nor does one whose record was swept.
    j.call_with(Say::Hold, CallOptions::default().idempotency_key("l")).await.unwrap_err();
    let waiting = j.read(|pages| pages.waiting.clone()).await.unwrap().unwrap();
    fleet.env.sleep(Duration::from_secs(800)).await;
    client.cluster.reply(&waiting, &words(&["late"])).await.unwrap();
    assert_eq!(fleet.store_keys("piece").await, words(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_server_with_many_sweeps_to_come_is_deleted() {
    for by_itself in [false, true] {
        let few = Limits { commit_operations: 60, ..Limits::PORTABLE };
        let fleet = Fleet::over(Limited::new(MemoryStore::new(), few));
        let a = fleet.join("a").await;
        a.serve(World::default());
        // Answers are owed until as many different times.
        let asking: Vec<Asking> = (1..120)
            .map(|number| {
                let options = CallOptions::default().timeout(Duration::from_secs(number * 1000));
                ask(&a.journal("j"), Say::Hold, options)
            })
            .collect();
        fleet.env.sleep(Duration::from_secs(1)).await;
        let sweeps = fleet.store_keys("due").await.len();
        assert!((30..60).contains(&sweeps), "{sweeps} for 119 callers: few, and more than fit the deletion");
        match by_itself {
            true => drop(a.journal("j").call(Say::Delete).await.unwrap()),
            false => assert!(fleet.join("operator").await.journal("j").delete().await.unwrap()),
        }
        for asking in asking {
            is_told(&fleet, asking).await;
        }
        fleet.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(fleet.left().await, words(&[]));
    }
}

/// More callers than one commit can tell, each on a node of its own, of a stopped journal.
async fn crowd() -> (Fleet, Vec<Seat>, Vec<Asking>) {
    let few = Limits { commit_operations: 40, ..Limits::PORTABLE };
    let fleet = Fleet::over(Limited::new(MemoryStore::new(), few));
    let (mut seats, mut asking) = (Vec::new(), Vec::new());
    for number in 0..12 {
        let seat = fleet.join(&format!("client{number}")).await;
        asking.push(ask(&seat.journal("j"), word("x"), patient()));
        seats.push(seat);
    }
    until(&fleet.env, || async { fleet.entries("queue", "j").await == 12 }).await;
    assert!(seats[0].journal("j").stop("wait").await.unwrap());
    (fleet, seats, asking)
}

#[tokio::test(start_paused = true)]
async fn all_are_told_though_the_answer_to_the_deletion_was_lost() {
    let (fleet, _seats, asking) = crowd().await;
    let operator = fleet.join("operator").await;
    let of_it = head(&fleet, "j");
    operator.bent.let_go();
    operator.bent.bend(move |commit| if deletes(commit, &of_it) { Bend::Landed } else { Bend::Pass });
    assert!(operator.journal("j").delete().await.unwrap());
    for asking in asking {
        is_told(&fleet, asking).await;
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_told_though_the_store_fails_meanwhile() {
    let (fleet, _seats, asking) = crowd().await;
    let operator = fleet.join("operator").await;
    let faults = Faults { unavailable: 0.5, ..Faults::NONE };
    let (of_it, link) = (head(&fleet, "j"), std::sync::Arc::clone(&operator.link));
    operator.bent.bend(move |commit| {
        if deletes(commit, &of_it) {
            link.set_faults(faults);
        }
        Bend::Pass
    });
    assert!(operator.journal("j").delete().await.unwrap());
    for asking in asking {
        is_told(&fleet, asking).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_spares_a_server_that_was_made_since() {
    let fleet = Fleet::new();
    let (a, operator) = (fleet.join("a").await, fleet.join("operator").await);
    a.serve(World::default());
    a.journal("j").call(word("old")).await.unwrap();
    let of_it = head(&fleet, "j");
    operator.bent.bend(move |commit| if deletes(commit, &of_it) { Bend::Landed } else { Bend::Pass });
    let deleting = operator.journal("j");
    let deleting = tokio::spawn(async move { deleting.delete().await });
    until(&fleet.env, || async { operator.bent.bent() == 1 }).await;
    assert_eq!(a.journal("j").call(word("new")).await.unwrap(), words(&["new"]));
    operator.bent.straighten();
    operator.bent.let_go();
    let told = deleting.await.unwrap();
    assert!(matches!(told, Err(ServerError::OutcomeUnknown(_))), "{told:?}");
    assert_eq!(said(&a.journal("j")).await, words(&["new"]));
}

/// Messages to a server that does not exist yet are deleted, so long after a node began to take them.
async fn deleted_while_taken(after: Duration, say: Say, urgent: bool) {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.link.set_faults(Faults { delay: Duration::from_millis(10), ..Faults::NONE });
    a.serve(World::default());
    fleet.env.sleep(Duration::from_secs(3)).await;
    let j = client.journal("j");
    match urgent {
        true => j.priority_cast(say).await.unwrap(),
        false => j.cast(say).await.unwrap(),
    }
    fleet.env.sleep(after).await;
    let before = said(&j).await;
    j.delete().await.unwrap();
    let now = said(&j).await;
    fleet.env.sleep(Duration::from_secs(30)).await;
    let later = said(&j).await;
    assert_eq!(now, words(&[]), "{after:?}: it is deleted");
    assert_eq!(later, words(&[]), "{after:?}: it had {before:?} when it was deleted");
    let left: Vec<String> = fleet.left().await.into_iter().filter(|key| !key.contains("changes")).collect();
    assert!(left.is_empty(), "{after:?}: {left:?}");
    let options = CallOptions::default().timeout(Duration::from_secs(60));
    j.call_with(word("new"), options).await.unwrap();
    assert_eq!(said(&j).await, words(&["new"]), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_that_are_deleted_while_somebody_takes_them_are_gone() {
    for ms in 0..100 {
        deleted_while_taken(Duration::from_millis(ms), word("old"), false).await;
        deleted_while_taken(Duration::from_millis(ms), word("old"), true).await;
        deleted_while_taken(Duration::from_millis(ms), Say::Lock("old".into()), false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn callers_who_were_answered_are_not_told_of_a_deletion_after_it() {
    for seed in 0..20 {
        let fleet = Fleet::with_seed(seed, MemoryStore::new());
        let (a, client) = (fleet.join("a").await, fleet.join("client").await);
        let seat = fleet.join("operator").await;
        let (j, operator) = (client.journal("j"), seat.journal("j"));
        let call = tokio::spawn({
            let (j, options) = (j.clone(), CallOptions::default().timeout(Duration::from_secs(60)));
            async move { j.call_with(word("one"), options).await }
        });
        // In the same entry of the queue.
        let cast = tokio::spawn(async move { j.cast(Say::Lock("two".into())).await });
        cast.await.unwrap().unwrap();
        client.link.cut();
        a.serve(World::waiting());
        until(&fleet.env, || is_locked(&operator)).await;
        operator.delete().await.unwrap();
        client.link.heal();
        let told = call.await.unwrap();
        assert_eq!(told.unwrap(), words(&["one"]), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_for_a_server_that_was_deleted_is_not_folded_into_the_next() {
    for number in 0..8 {
        let fleet = Fleet::new();
        let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
        let j = client.journal(&format!("j{number}"));
        let one = a.serve(World::waiting());
        j.cast(Say::Lock("old".into())).await.unwrap();
        until(&fleet.env, || is_locked(&j)).await;
        a.gate.pause();
        j.delete().await.unwrap();
        let other = b.serve(World::waiting());
        j.cast(Say::Lock("new".into())).await.unwrap();
        // Either of them may look after it.
        fleet.env.sleep(Duration::from_secs(5)).await;
        one.permit();
        a.gate.resume();
        fleet.env.sleep(Duration::from_secs(2)).await;
        for world in [one, other] {
            (0..3).for_each(|_| world.permit());
        }
        fleet.env.sleep(Duration::from_secs(30)).await;
        assert_eq!(said(&j).await, words(&["lock new", "done new"]), "j{number}");
    }
}
