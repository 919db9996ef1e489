//! 13: what is too large for one value, or for one commit; and lists whose order changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_server::{
    Context, Failure, Never, Serve as _, Server, ServerError, message_bytes_max, state::List,
};
use tenure_store::{Limited, Limits, MemoryStore};

use crate::fleet::{Fleet, Say, World, said, status, until, word, words};

fn portable() -> Fleet {
    Fleet::over(Limited::new(MemoryStore::new(), Limits::PORTABLE))
}

#[tokio::test(start_paused = true)]
async fn w13_messages_and_answers_of_hundreds_of_kibibytes_pass() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    let large = "x".repeat(400 * 1024);
    journal.cast(word(&large)).await.unwrap();
    assert!(fleet.store_keys("piece").await.len() >= 2, "it does not fit one value");
    a.serve(World::default());
    until(&fleet.env, || async { said(&journal).await == [large.clone()] }).await;
    let answer = journal.call(Say::Large(450 * 1024)).await.unwrap();
    assert_eq!(answer[0].len(), 450 * 1024);
    let near = a.journal("j");
    assert_eq!(
        near.call(Say::Large(3 << 20)).await.unwrap()[0].len(),
        3 << 20,
        "in one process there is no limit"
    );
    fleet.env.sleep(Duration::from_secs(5)).await;
    assert_eq!(fleet.store_keys("piece").await, words(&[]));
    let own = fleet.store_keys("own").await;
    assert!(own.iter().all(|key| !key.contains("reply")), "{own:?}");
}

#[tokio::test(start_paused = true)]
async fn w13_many_large_messages_keep_their_order() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    for number in 0..6 {
        journal.cast(Say::Send("sink".into(), vec![format!("{number}")])).await.unwrap();
        journal.cast(Say::Fail(format!("{number}{}", "x".repeat(300 * 1024)), 99)).await.unwrap();
    }
    a.serve(World::default());
    until(&fleet.env, || async { status(&journal).await.died == 6 }).await;
    let sink = client.journal("sink");
    until(&fleet.env, || async { said(&sink).await.len() == 6 }).await;
    assert_eq!(said(&sink).await, words(&["0", "1", "2", "3", "4", "5"]));
}

#[tokio::test(start_paused = true)]
async fn w13_what_is_too_large_is_refused_before_any_io() {
    let fleet = portable();
    let client = fleet.join("client").await;
    let journal = client.journal("j");
    journal.cast(word("one")).await.unwrap();
    let most = message_bytes_max(&Limits::PORTABLE);
    assert!(most >= 500 * 1024);
    let before = (client.counted.reads(), client.counted.commits());
    let large = || word(&"x".repeat(most));
    let refusals = [
        journal.cast(large()).await.unwrap_err(),
        journal.call(large()).await.map(|_| ()).unwrap_err(),
        journal.priority_cast(large()).await.unwrap_err(),
        journal.cast_nowait(large()).unwrap_err(),
        journal.cast_all([word("two"), large()]).await.unwrap_err(),
        journal
            .cast_after(Duration::from_secs(1), word(&"x".repeat(300 * 1024)))
            .await
            .map(|_| ())
            .unwrap_err(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, ServerError::TooLarge(_)), "{refusal:?}");
        assert!(refusal.to_string().contains("the most is"), "{refusal}");
    }
    assert_eq!((client.counted.reads(), client.counted.commits()), before);
    journal.cast(word(&"x".repeat(most - 1024))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn w13_an_answer_that_is_too_large_is_told_and_nothing_is_done() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    a.serve(World::default());
    let journal = client.journal("j");
    let refused = journal.call(Say::Large(2 << 20)).await;
    assert!(matches!(&refused, Err(ServerError::Failed { attempts: 1, .. })), "{refused:?}");
    assert_eq!(journal.call(word("next")).await.unwrap(), words(&["next"]));
    let many = journal.call(Say::Notes(500)).await;
    assert!(
        matches!(&many, Err(ServerError::Failed { attempts: 1, .. })),
        "more parts than a commit takes: {many:?}"
    );
    assert_eq!(journal.read(|pages| pages.notes.len()).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn w13_a_batch_that_does_not_fit_a_commit_is_made_in_some() {
    let fleet = portable();
    let (a, client) = (fleet.join("a").await, fleet.join("client").await);
    let journal = client.journal("j");
    for note in 0..90 {
        journal.cast(Say::Note(format!("note {note}"), note)).await.unwrap();
    }
    journal.cast(Say::Notes(100)).await.unwrap();
    a.serve(World::default());
    until(&fleet.env, || async { status(&journal).await.applied == 91 }).await;
    assert_eq!(journal.read(|pages| pages.notes.len()).await.unwrap(), 190);
}

/// Steps in an order.
#[derive(Default)]
struct Steps;

#[derive(Serialize, Deserialize)]
enum Step {
    Add(String),
    /// Moves the one at an index to another.
    Move(usize, usize),
    Insert(usize, String),
}

impl Server for Steps {
    const KIND: &'static str = "steps";
    type State = List<String>;
    type Call = Step;
    type Reply = Vec<String>;
    type Cast = Never;
    type Effect = Never;

    fn handle_call(
        &self,
        steps: &mut List<String>,
        step: &Step,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<Vec<String>>, Failure> {
        match step {
            Step::Add(step) => {
                steps.push_back(step.clone());
            }
            Step::Move(from, to) => {
                let id = steps.id_at(*from).ok_or_else(|| Failure::new("no such step"))?;
                steps.move_to(id, *to);
            }
            Step::Insert(at, step) => {
                steps.insert(*at, step.clone());
            }
        }
        Ok(Some(list(steps)))
    }

    fn handle_cast(
        &self,
        _: &mut List<String>,
        cast: &Never,
        _: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        match *cast {}
    }
}

fn list(steps: &List<String>) -> Vec<String> {
    steps.iter().map(|(_, step)| step.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn w13_a_new_order_of_a_list_is_stored_and_can_be_inserted_into() {
    let fleet = Fleet::new();
    let (a, b) = (fleet.join("a").await, fleet.join("b").await);
    a.cluster.serve::<Steps>().unwrap();
    let steps = a.cluster.server::<Steps>("s").unwrap();
    for step in ["knead", "wait", "bake", "eat"] {
        steps.call(Step::Add(step.to_owned())).await.unwrap();
    }
    assert_eq!(steps.call(Step::Move(3, 0)).await.unwrap(), words(&["eat", "knead", "wait", "bake"]));
    assert_eq!(steps.call(Step::Move(1, 3)).await.unwrap(), words(&["eat", "wait", "bake", "knead"]));
    let elsewhere = b.cluster.server::<Steps>("s").unwrap();
    let seen = elsewhere.read(list).await.unwrap();
    assert_eq!(seen, words(&["eat", "wait", "bake", "knead"]), "as it was stored");
    a.kill();
    b.cluster.serve::<Steps>().unwrap();
    let after = elsewhere.call(Step::Insert(2, "look".into())).await.unwrap();
    assert_eq!(after, words(&["eat", "wait", "look", "bake", "knead"]));
}
