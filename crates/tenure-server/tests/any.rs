//! Servers as somebody sees them who has none of their code.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod fleet;

use std::{sync::Arc, time::Duration};

use fleet::*;
use serde_json::json;
use tenure_cluster::Onlooker;
use tenure_server::*;
use tenure_store::{Limited, Limits, Name};

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn any(seat: &Seat, id: &str) -> AnyServer {
    AnyServer::new(&seat.cluster, Journal::KIND, id).unwrap()
}

fn onlooker(fleet: &Fleet) -> Onlooker {
    Onlooker::new(Arc::clone(&fleet.store), name("c"))
}

#[tokio::test(start_paused = true)]
async fn json_reaches_a_server_and_its_answer_comes_back() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    a.serve(World::default());
    // Where the kind is served, too: its code is not used.
    for seat in [&a, &b] {
        let server = any(seat, "j");
        server.cast(Json(json!({"Word": "one"})), false).await.unwrap();
        let said = server.call(Json(json!({"Word": "two"})), CallOptions::default(), false).await.unwrap();
        assert_eq!(said.0.as_array().unwrap().last().unwrap(), "two");
        server.cast(Json(json!({"Word": "three"})), true).await.unwrap();
        let key = CallOptions::default().idempotency_key("once");
        server.call(Json(json!({"Word": "four"})), key, true).await.unwrap();
    }
    until(&fleet.env, || async { said(&a.journal("j")).await.len() == 7 }).await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_none_becomes_a_dead_letter_that_can_be_seen_and_replayed() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    a.serve(World::default());
    let (server, look) = (any(&b, "j"), onlooker(&fleet));
    server.cast(Json(json!({"Sing": "la"})), false).await.unwrap();
    let letters = || async { look.dead_letters(&name(Journal::KIND), &name("j"), None, 10).await };
    until(&fleet.env, || async { letters().await.unwrap().len() == 1 }).await;
    let letter = letters().await.unwrap().remove(0);
    assert_eq!(letter.json().unwrap().0, json!({"Sing": "la"}));
    let seen = look.server(&name(Journal::KIND), &name("j")).await.unwrap().unwrap();
    assert_eq!((seen.dead_letters, seen.status.died, seen.status.waiting), (1, 1, 0));
    assert!(server.replay(letter.number).await.unwrap());
    until(&fleet.env, || async { letters().await.unwrap().iter().any(|next| next.number > letter.number) })
        .await;
    let next = letters().await.unwrap().remove(0).number;
    assert!(server.drop_dead_letter(next).await.unwrap());
    assert!(!server.drop_dead_letter(next).await.unwrap());
    assert_eq!(letters().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_taken_and_a_server_deleted_without_its_code() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let world = a.serve(World::waiting());
    let server = any(&b, "j");
    assert!(!server.unlock().await.unwrap(), "there is none");
    a.journal("j").call(Say::Note("kept".into(), 7)).await.unwrap();
    server.cast(Json(json!({"Lock": "work"})), false).await.unwrap();
    until(&fleet.env, || async { world.works() == 1 }).await;
    assert!(server.status().await.unwrap().unwrap().is_locked);
    assert!(server.unlock().await.unwrap());
    until(&fleet.env, || async { world.works() == 2 }).await;
    world.permit();
    world.permit();
    until(&fleet.env, || async { said(&a.journal("j")).await == ["lock work", "done work"] }).await;
    let notes = a.journal("j").read(|pages| pages.notes.get("kept").copied()).await.unwrap();
    assert_eq!((notes, status(&a.journal("j")).await.schema), (Some(7), Journal::SCHEMA));
    assert!(server.delete().await.unwrap());
    assert_eq!(server.status().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn kinds_and_servers_are_counted_and_listed_in_pages() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    let look = onlooker(&fleet);
    assert_eq!(look.kinds(None, 100).await.unwrap(), []);
    for number in 0..70 {
        b.journal(&format!("j{number:02}")).cast(Say::Word("hello".into())).await.unwrap();
    }
    AnyServer::new(&b.cluster, "zoo", "lion").unwrap().cast(Json(json!("roar")), false).await.unwrap();
    let kinds = look.kinds(None, 100).await.unwrap();
    let seen = |kind: &KindSeen| (kind.kind.to_string(), kind.consumers, kind.servers, kind.busy);
    let journals = Journal::KIND.to_owned();
    assert_eq!(
        kinds.iter().map(seen).collect::<Vec<_>>(),
        [(journals.clone(), 0, 0, 70), ("zoo".into(), 0, 0, 1)]
    );
    let waits = look.server(&name("zoo"), &name("lion")).await.unwrap().unwrap();
    assert_eq!((waits.status.waiting, waits.status.applied), (1, 0));
    fleet.env.sleep(Duration::from_secs(3)).await;
    let waits = look.server(&name("zoo"), &name("lion")).await.unwrap().unwrap();
    assert!(waits.status.oldest.unwrap() >= Duration::from_secs(3));

    // One after another.
    let first = look.kinds(None, 1).await.unwrap();
    assert_eq!(first, kinds[..1]);
    assert_eq!(look.kinds(Some(&first[0].kind), 1).await.unwrap(), kinds[1..]);
    assert_eq!(look.kinds(Some(&kinds[1].kind), 1).await.unwrap(), []);
    let backlog = look.backlog(&name(Journal::KIND), 100).await.unwrap();
    assert_eq!((backlog.waiting, backlog.more), (70, false));
    assert!(backlog.oldest.unwrap() >= Duration::from_secs(3));
    let backlog = look.backlog(&name(Journal::KIND), 50).await.unwrap();
    assert_eq!((backlog.waiting, backlog.more), (50, true));

    a.serve(World::default());
    until(&fleet.env, || async { look.kinds(None, 100).await.unwrap()[0].busy == 0 }).await;
    assert_eq!(seen(&look.kinds(None, 100).await.unwrap()[0]), (journals, 1, 70, 0));
    let (mut after, mut ids): (Option<Name>, Vec<String>) = (None, Vec::new());
    loop {
        let page = look.servers(&name(Journal::KIND), after.as_ref(), 33).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.iter().all(|seen| (seen.status.applied, seen.status.waiting) == (1, 0)));
        after = Some(last.id.clone());
        ids.extend(page.iter().map(|seen| seen.id.to_string()));
    }
    assert_eq!(ids, (0..70).map(|number| format!("j{number:02}")).collect::<Vec<_>>());
}

/// How many members there are: more than some stores can be asked for at once.
const CROWD: usize = 130;

#[tokio::test(start_paused = true)]
async fn short_pages_and_large_fleets_leave_nothing_out() {
    let fleet = Fleet::new();
    let mut seats = Vec::new();
    for number in 0..CROWD {
        seats.push(fleet.join(&format!("n{number}")).await);
    }
    // Those of even numbers are served and have heads; the others have messages that nobody takes.
    seats[0].serve(World::default());
    for number in (0..40).step_by(2) {
        seats[1].journal(&format!("j{number:02}")).cast(Say::Word("hello".into())).await.unwrap();
    }
    let whole = onlooker(&fleet);
    until(&fleet.env, || async { whole.kinds(None, 10).await.unwrap()[0].busy == 0 }).await;
    seats.remove(0).cluster.leave().await;
    for number in (1..40).step_by(2) {
        seats[1].journal(&format!("j{number:02}")).cast(Say::Word("hello".into())).await.unwrap();
    }
    // Pages end by their bytes, each range at a name of its own.
    let limits = Limits { page_bytes: 300, ..Limits::PORTABLE };
    let look = Onlooker::new(Arc::new(Limited::new(Arc::clone(&fleet.store), limits)), name("c"));
    let all: Vec<String> = (0..40).map(|number| format!("j{number:02}")).collect();
    for limit in [7, 100] {
        let (mut after, mut ids): (Option<Name>, Vec<String>) = (None, Vec::new());
        loop {
            let page = look.servers(&name(Journal::KIND), after.as_ref(), limit).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() == limit || last.id.as_str() == "j39", "a page is short only at the end");
            after = Some(last.id.clone());
            ids.extend(page.iter().map(|seen| seen.id.to_string()));
        }
        assert_eq!(ids, all);
    }
    let kinds = look.kinds(None, 10).await.unwrap();
    assert_eq!((kinds.len(), kinds[0].consumers), (1, 0));
}
