//! Effects that come late or take long, and other things that are found out late.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::time::Duration;

use fleet::{bent::Bend, *};
use tenure_server::*;
use tenure_store::{Commit, Faults, Key, Limited, Limits, MemoryStore, Store as _, StoreExt as _, Write};

fn patient() -> CallOptions {
    CallOptions::default().timeout(Duration::from_secs(600))
}
/// How often this effect was tried.
fn tries(world: &World, effect: &str) -> usize {
    world.effects().iter().filter(|(found, _)| found == effect).count()
}
fn head(fleet: &Fleet, id: &str) -> Key {
    fleet.area("head").text(Journal::KIND).text(id).key()
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_was_recorded_after_its_outcome_was_told_as_unknown_is_done() {
    for (from_a, is_first) in [(true, false), (false, false), (true, true), (false, true)] {
        let fleet = Fleet::new();
        let (a, b) = (fleet.join("a").await, fleet.join("b").await);
        let worlds = [a.serve(World::default()), b.serve(World::default())];
        fleet.env.sleep(Duration::from_secs(3)).await;
        let seat = if from_a { &a } else { &b };
        if !is_first {
            seat.journal("j").call(word("x")).await.unwrap();
        }
        let of_it = fleet.area("effect").text(Journal::KIND).text("j").key();
        let records = move |commit: &Commit| commit.writes.iter().any(|write| write.range().contains(&of_it));
        // What could tell is hidden for longer than it is tried to find out.
        let tells = match is_first {
            true => fleet
                .area("own")
                .bytes(seat.cluster.session().id().to_bytes().to_vec())
                .text("births")
                .int(0_u64)
                .key(),
            false => head(&fleet, "j"),
        };
        let (link, hidden) = (std::sync::Arc::clone(&seat.bent), tells);
        seat.bent.bend(move |commit| {
            if !records(commit) {
                return Bend::Pass;
            }
            link.hide(hidden.clone());
            Bend::Kept
        });
        let told = seat.journal("j").call_with(Say::Effect("good".into()), patient()).await;
        assert!(matches!(told, Err(ServerError::OutcomeUnknown(_))), "{told:?}");
        fleet.env.sleep(Duration::from_secs(5)).await;
        seat.bent.land_kept().await.unwrap();
        seat.bent.straighten();
        fleet.env.sleep(Duration::from_secs(20)).await;
        assert_eq!(tries(&worlds[usize::from(!from_a)], "good"), 1, "{from_a} {is_first}");
        assert_eq!(fleet.entries("effect", "j").await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_effect_that_never_returns_keeps_no_other_waiting() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    let j = client.journal("j");
    j.cast_all([ENDLESS, "good", HOPELESS].map(|effect| Say::Effect(effect.into()))).await.unwrap();
    fleet.env.sleep(Duration::from_secs(1)).await;
    assert_eq!((tries(&world, ENDLESS), tries(&world, "good")), (1, 1));
    assert!(tries(&world, HOPELESS) > 2, "one that fails is tried again meanwhile");
    j.call(Say::Effect("later".into())).await.unwrap();
    fleet.env.sleep(Duration::from_millis(100)).await;
    assert_eq!((tries(&world, "later"), fleet.entries("effect", "j").await), (1, 2));
    // It has its time, and is tried again when that is over.
    fleet.env.sleep(Duration::from_secs(57)).await;
    assert_eq!(tries(&world, ENDLESS), 1);
    fleet.env.sleep(Duration::from_secs(35)).await;
    assert_eq!(tries(&world, ENDLESS), 2);
}

#[tokio::test(start_paused = true)]
async fn many_effects_that_never_return_keep_others_waiting_for_as_long_as_they_may_take() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let world = a.serve(World::default());
    let effects = [ENDLESS; 16].into_iter().chain(["good"; 20]);
    client.journal("j").cast_all(effects.map(|effect| Say::Effect(effect.into()))).await.unwrap();
    fleet.env.sleep(Duration::from_secs(59)).await;
    assert_eq!((tries(&world, ENDLESS), tries(&world, "good")), (16, 0), "no more are done at once");
    fleet.env.sleep(Duration::from_secs(2)).await;
    assert_eq!((tries(&world, "good"), fleet.entries("effect", "j").await), (20, 16));
}

#[tokio::test(start_paused = true)]
async fn effects_that_were_done_are_removed_though_that_does_not_fit_a_commit() {
    let few = Limits { commit_operations: 40, value_bytes: 4096, ..Limits::PORTABLE };
    let fleet = Fleet::over(Limited::new(MemoryStore::new(), few));
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    // All are there before the first is done.
    let world = a.serve(World { effects_failing: 16.into(), ..World::default() });
    for _ in 0..16 {
        client.journal("j").call(Say::Effect("x".repeat(40_000))).await.unwrap();
    }
    assert!(fleet.store_keys("effect").await.len() > 16 * few.commit_operations / 8);
    fleet.env.sleep(Duration::from_secs(60)).await;
    assert!(world.effects().len() >= 32);
    assert_eq!((fleet.entries("effect", "j").await, fleet.store_keys("effect").await), (0, vec![]));
}

/// A counter whose answers are not kept for long.
#[derive(Default)]
struct Brief;

impl Server for Brief {
    const KIND: &'static str = "brief";
    const POLICY: Policy = Policy { answers_kept: Duration::from_secs(10), ..Policy::DEFAULT };
    type State = u64;
    type Call = u64;
    type Reply = u64;
    type Cast = Never;
    type Effect = Never;

    fn handle_call(
        &self,
        total: &mut u64,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        *total += add;
        Ok(Some(*total))
    }

    fn handle_cast(&self, _: &mut u64, cast: &Never, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        match *cast {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_knows_an_older_head_leaves_the_sweep_that_it_does_not_know() {
    let fleet = Fleet::new();
    let seats = [fleet.join("a").await, fleet.join("b").await];
    for seat in &seats {
        seat.cluster.serve::<Brief>().unwrap();
    }
    fleet.env.sleep(Duration::from_secs(3)).await;
    // Whichever of them looks after it, the other has changed it since.
    for (old, new) in [(0, 1), (1, 0)] {
        let id = format!("server-{old}");
        let [old, new] = [old, new].map(|at: usize| seats[at].cluster.server::<Brief>(&id).unwrap());
        old.call(1).await.unwrap();
        new.call_with(2, CallOptions::default().idempotency_key("k")).await.unwrap();
    }
    assert_eq!((fleet.store_keys("once").await.len(), fleet.store_keys("due").await.len()), (2, 2));
    fleet.env.sleep(Duration::from_secs(20)).await;
    assert_eq!((fleet.store_keys("once").await, fleet.store_keys("due").await), (vec![], vec![]));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_met_another_commit_comes_soon() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let j = client.journal("j");
    j.call(word("one")).await.unwrap();
    fleet.env.sleep(Duration::from_secs(15)).await;
    j.cast_after(Duration::from_secs(1), word("two")).await.unwrap();
    fleet.env.sleep(Duration::from_millis(900)).await;
    a.link.set_faults(Faults { conflict: 1.0, ..Faults::NONE });
    fleet.env.sleep(Duration::from_millis(200)).await;
    a.link.set_faults(Faults::NONE);
    fleet.env.sleep(Duration::from_millis(500)).await;
    assert_eq!(said(&j).await, words(&["one", "two"]));
}

#[tokio::test(start_paused = true)]
async fn a_priority_message_does_not_wait_though_its_desk_has_more_to_do_than_it_can_take() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    client.journal("j").priority_call(word("one"), patient()).await.unwrap();
    fleet.env.sleep(Duration::from_secs(15)).await;
    a.link.set_faults(Faults { delay: Duration::from_millis(200), ..Faults::NONE });
    let (journal, env) = (a.journal("j"), fleet.env.clone());
    let busy = tokio::spawn(async move {
        loop {
            while journal.cast_nowait(Say::Note("n".into(), 1)).is_ok() {}
            env.sleep(Duration::from_millis(1)).await;
        }
    });
    fleet.env.sleep(Duration::from_millis(500)).await;
    let asked = fleet.env.now();
    client.journal("j").priority_call(word("two"), patient()).await.unwrap();
    let took = fleet.env.now() - asked;
    busy.abort();
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ceased_to_serve_is_given_no_shards_though_what_it_said_before_comes_late() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    b.serve(World::default());
    fleet.env.sleep(Duration::from_secs(3)).await;
    let news = fleet.area("consumers").text(Journal::KIND).key();
    let says = move |commit: &Commit| commit.writes.iter().any(|write| *write.range().start() == news);
    a.bent.bend(move |commit| if says(commit) { Bend::Kept } else { Bend::Pass });
    let serving = a.cluster.serve_with(Journal::default()).unwrap();
    until(&fleet.env, || async { a.bent.bent() >= 1 }).await;
    a.bent.straighten();
    serving.stop().await.unwrap();
    // Whether or not it still can.
    let _ = a.bent.land_kept().await;
    fleet.env.sleep(Duration::from_secs(3)).await;
    for number in 0..20 {
        client.journal(&format!("{number}-j")).call(word("x")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_of_a_commit_that_is_kept() {
    // Of the tests themselves: what is kept has not happened.
    let fleet = Fleet::new();
    let a = fleet.join("a").await;
    a.bent.bend(|commit| match &commit.writes[..] {
        [Write::Set(key, _)] if *key == Key::from("x") => Bend::Kept,
        _ => Bend::Pass,
    });
    let commit = Commit::new().set(Key::from("x"), "y");
    assert!(a.bent.commit(commit).await.is_err());
    assert!(fleet.store.get(&Key::from("x")).await.unwrap().is_none());
    a.bent.land_kept().await.unwrap();
    assert!(fleet.store.get(&Key::from("x")).await.unwrap().is_some());
}
