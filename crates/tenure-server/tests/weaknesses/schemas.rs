//! 15, 18: states of other releases, and bytes that nobody has written.

use std::time::Duration;

use bytes::Bytes;
use tenure_server::{
    CallOptions, Context, Failure, Never, RawParts, Serve as _, Server, ServerError,
    state::{Map, State},
};
use tenure_store::{Commit, Key, Store as _, StoreExt as _};

use crate::fleet::{Fleet, Seat, World, bent::Bend, status, until, word};

/// The first release: amounts in whole units.
#[derive(Default)]
struct Old;

#[derive(Default, State)]
struct OldAccount {
    units: u64,
}

/// The second: in cents, and with names.
#[derive(Default)]
struct New;

#[derive(Default, State)]
struct NewAccount {
    cents: u64,
    #[state(parts)]
    names: Map<String, u64>,
}

impl Server for Old {
    const KIND: &'static str = "account";
    type State = OldAccount;
    type Call = u64;
    type Reply = u64;
    type Cast = u64;
    type Effect = Never;

    fn handle_call(
        &self,
        account: &mut OldAccount,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        account.units += add;
        Ok(Some(account.units))
    }

    fn handle_cast(
        &self,
        account: &mut OldAccount,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        account.units += add;
        Ok(())
    }
}

impl Server for New {
    const KIND: &'static str = "account";
    const SCHEMA: u32 = 2;
    type State = NewAccount;
    type Call = u64;
    type Reply = u64;
    type Cast = u64;
    type Effect = Never;

    fn handle_call(
        &self,
        account: &mut NewAccount,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        account.cents += add * 100;
        account.names.insert("last".to_owned(), *add);
        Ok(Some(account.cents))
    }

    fn handle_cast(
        &self,
        account: &mut NewAccount,
        add: &u64,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.handle_call(account, add, context).map(|_| ())
    }

    fn migrate(from: u32, parts: &mut RawParts<'_>) -> Result<(), Failure> {
        assert_eq!(from, 1);
        let units: u64 = parts.take("units")?.unwrap_or_default();
        parts.put("cents", &(units * 100))?;
        Ok(())
    }
}

/// All keys and values of a kind's heads and states, and how many entries its queue has.
async fn stored(fleet: &Fleet, kind: &str, id: &str) -> (Vec<(Key, Bytes)>, usize) {
    let mut found = Vec::new();
    for word in ["head", "state"] {
        let page = fleet.store.scan(&fleet.area(word).text(kind).range(), 1000).await.unwrap();
        found.extend(page.items.into_iter().map(|item| (item.key, item.value)));
    }
    let queue = fleet.area("queue").text(kind).text(id).key();
    (found, fleet.store.entries(&queue, 100).await.unwrap().items.len())
}

#[tokio::test(start_paused = true)]
async fn w15_an_older_state_is_migrated_when_it_is_next_needed() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let serving = a.cluster.serve::<Old>().unwrap();
    let old = a.cluster.server::<Old>("x").unwrap();
    assert_eq!(old.call(5).await.unwrap(), 5);
    serving.stop().await.unwrap();
    let before = stored(&fleet, "account", "x").await;
    b.cluster.serve::<New>().unwrap();
    let new = b.cluster.server::<New>("x").unwrap();
    assert_eq!(new.read(|account| account.cents).await.unwrap(), 500, "a read sees it migrated");
    fleet.env.sleep(Duration::from_secs(30)).await;
    assert_eq!(stored(&fleet, "account", "x").await, before, "and changes nothing");
    assert_eq!(new.call(1).await.unwrap(), 600);
    assert_eq!(new.status().await.unwrap().unwrap().schema, 2);
    let keys: Vec<String> =
        stored(&fleet, "account", "x").await.0.iter().map(|(key, _)| key.to_string()).collect();
    assert!(
        keys.iter().any(|key| key.contains("cents")) && !keys.iter().any(|key| key.contains("units")),
        "{keys:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn w15_a_newer_state_is_refused_and_nothing_changes() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let serving = b.cluster.serve::<New>().unwrap();
    b.cluster.server::<New>("x").unwrap().call(5).await.unwrap();
    serving.stop().await.unwrap();
    a.cluster.serve::<Old>().unwrap();
    let old = a.cluster.server::<Old>("x").unwrap();
    b.cluster.server::<New>("x").unwrap().cast(1).await.unwrap();
    let before = stored(&fleet, "account", "x").await;
    assert_eq!(before.1, 1);
    let refusal = old.read(|account| account.units).await.map(|_| ()).unwrap_err();
    assert!(matches!(refusal, ServerError::Newer { found: 2, known: 1, .. }), "{refusal:?}");
    assert!(refusal.to_string().contains("upgrade"), "{refusal}");
    let unanswered = old.call(1).await.map(|_| ()).unwrap_err();
    assert!(matches!(unanswered, ServerError::Timeout { .. }), "{unanswered:?}");
    old.cast(1).await.unwrap();
    fleet.env.sleep(Duration::from_secs(60)).await;
    let after = stored(&fleet, "account", "x").await;
    assert_eq!((after.0, after.1), (before.0, 3), "its messages wait for a newer release");
    b.cluster.serve::<New>().unwrap();
    let new = b.cluster.server::<New>("x").unwrap();
    until(&fleet.env, || async { new.read(|account| account.cents).await.unwrap() == 800 }).await;
}

#[tokio::test(start_paused = true)]
async fn w15_while_both_releases_serve_the_newer_takes_the_messages() {
    let fleet = Fleet::new();
    let (a, b, client) = (fleet.join("a").await, fleet.join("b").await, fleet.join("client").await);
    a.cluster.serve::<Old>().unwrap();
    b.cluster.serve::<New>().unwrap();
    fleet.env.sleep(Duration::from_secs(2)).await;
    for number in 0..20 {
        let server = client.cluster.server::<New>(&format!("{number}-account")).unwrap();
        assert_eq!(server.call(1).await.unwrap(), 100);
    }
}

#[tokio::test(start_paused = true)]
async fn w15_a_state_is_migrated_by_a_sweep_too() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let serving = a.cluster.serve::<Old>().unwrap();
    let options = CallOptions::default().idempotency_key("k");
    a.cluster.server::<Old>("x").unwrap().call_with(5, options).await.unwrap();
    serving.stop().await.unwrap();
    // Longer than answers are kept.
    fleet.env.sleep(Duration::from_secs(28 * 3600)).await;
    b.cluster.serve::<New>().unwrap();
    until(&fleet.env, || async { fleet.store_keys("once").await.is_empty() }).await;
    let new = a.cluster.server::<New>("x").unwrap();
    assert_eq!(new.read(|account| account.cents).await.unwrap(), 500);
}

async fn corrupt(fleet: &Fleet, seat: &Seat, area: &str, bytes: &'static [u8]) -> Key {
    seat.serve(World::default());
    seat.journal("j").call(word("one")).await.unwrap();
    let found = fleet.store.scan(&fleet.area(area).range(), 10).await.unwrap();
    let key = found.items[0].key.clone();
    fleet.store.commit(Commit::new().set(key.clone(), bytes)).await.unwrap();
    key
}

#[tokio::test(start_paused = true)]
async fn w18_corrupt_bytes_are_told_with_their_key() {
    let garbage: [&'static [u8]; 4] = [b"", b"\xff", b"\xc1garbage", &[0xdd, 0xff, 0xff, 0xff, 0xff]];
    for area in ["state", "head"] {
        for bytes in garbage {
            let fleet = Fleet::new();
            let (a, b, c) = (fleet.join("a").await, fleet.join("b").await, fleet.join("c").await);
            let key = corrupt(&fleet, &a, area, bytes).await;
            c.serve(World::default());
            let errors = [
                b.journal("j").read(|_| ()).await.unwrap_err(),
                c.journal("j").call(word("two")).await.map(|_| ()).unwrap_err(),
                c.journal("j").read(|_| ()).await.unwrap_err(),
            ];
            for error in errors {
                let words = format!("{error}: {error:?}");
                assert!(words.contains(&key.to_string()), "{area} {bytes:?}: {words} does not name {key}");
            }
            // Others are not affected.
            a.journal("other").call(word("one")).await.unwrap();
            b.journal("other").call(word("two")).await.unwrap();
        }
    }
}

/// Says that it is a journal, and has other messages.
#[derive(Default)]
struct Foreign;

impl Server for Foreign {
    const KIND: &'static str = "journal";
    type State = u64;
    type Call = u64;
    type Reply = u64;
    type Cast = Vec<u64>;
    type Effect = Never;

    fn handle_call(&self, _: &mut u64, _: &u64, _: &mut Context<'_, Self>) -> Result<Option<u64>, Failure> {
        Ok(None)
    }

    fn handle_cast(&self, _: &mut u64, _: &Vec<u64>, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn w18_a_message_that_can_not_be_read_is_a_dead_letter() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    client.cluster.server::<Foreign>("j").unwrap().cast(vec![5]).await.unwrap();
    let journal = client.journal("j");
    journal.call(word("next")).await.unwrap();
    until(&fleet.env, || async { status(&journal).await.died == 1 }).await;
    let dead = journal.dead_letters(None, 1).await.unwrap();
    assert!(dead[0].attempts[0].error.contains("a message is no"), "{dead:?}");
}

#[tokio::test(start_paused = true)]
async fn w18_a_call_that_can_not_be_read_stays_a_call() {
    let fleet = Fleet::new();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let patient = CallOptions::default().timeout(Duration::from_secs(60));
    assert!(client.cluster.server::<Foreign>("j").unwrap().call_with(99, patient).await.is_err());
    let journal = client.journal("j");
    // Nobody waits for its answer any more.
    assert!(journal.replay(1).await.unwrap());
    until(&fleet.env, || async { status(&journal).await.died == 2 }).await;
    assert!(journal.dead_letters(None, 1).await.unwrap()[0].is_call);
}

#[tokio::test(start_paused = true)]
async fn w15_what_makes_a_commit_void_stores_no_schema_whose_state_is_not_stored() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let client = fleet.join("client").await;
    let serving = a.cluster.serve::<Old>().unwrap();
    assert_eq!(a.cluster.server::<Old>("x").unwrap().call(5).await.unwrap(), 5);
    serving.stop().await.unwrap();
    b.cluster.serve::<New>().unwrap();
    fleet.env.sleep(Duration::from_secs(3)).await;
    // Its first commit is under way for ever; its copy meets a message that came meanwhile.
    let of_it = fleet.area("head").text("account").text("x").key();
    let writes = move |commit: &Commit| commit.writes.iter().any(|write| *write.range().start() == of_it);
    let mut kept = false;
    b.bent.bend(move |commit| match writes(commit) {
        true if !kept => {
            kept = true;
            Bend::Kept
        }
        true => Bend::Wait,
        false => Bend::Pass,
    });
    let purse = b.cluster.server::<New>("x").unwrap();
    let asking = tokio::spawn(async move {
        purse.call_with(1, CallOptions::default().timeout(Duration::from_secs(600))).await
    });
    until(&fleet.env, || async { b.bent.bent() == 2 }).await;
    client.cluster.server::<New>("x").unwrap().cast(2).await.unwrap();
    b.bent.straighten();
    b.bent.let_go();
    assert_eq!(asking.await.unwrap().unwrap(), 800, "5 and 2 and 1, in cents");
    assert!(b.bent.land_kept().await.is_err(), "it can't come late");
}
