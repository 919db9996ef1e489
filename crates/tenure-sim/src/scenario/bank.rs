//! The bank: contended commits that read, decide and write, while the sum of all accounts must never change.

use std::{sync::Arc, time::Duration};

use tenure_store::{Bytes, Check, Commit, Faults, Key, Lane, LaneError, Read, Store as _};

use super::{CALM, RETRY, calm, cut_and_heal};
use crate::{
    Node, World,
    invariant::{Conserved, balance},
};

const ACCOUNTS: usize = 4;
const OPENING_BALANCE: u64 = 100;
const CLERKS: usize = 3;
const TRANSFERS: usize = 10;

/// Clerks move money between a few accounts under a storm of faults, while an auditor looks on. Returns how many transfers were acknowledged.
///
/// # Errors
/// When the auditor ever saw another sum.
pub async fn bank(world: World) -> Result<usize, String> {
    let accounts: Vec<Key> = (0..ACCOUNTS).map(|at| Key::from(format!("account/{at}").as_str())).collect();
    let opening = accounts
        .iter()
        .fold(Commit::new(), |commit, account| commit.set(account.clone(), amount(OPENING_BALANCE)));
    world.store.commit(opening).await.expect("the bare store has no faults");
    let conserved = Conserved::new(accounts.clone(), OPENING_BALANCE * ACCOUNTS as u64);

    let nodes: Vec<Node> = (0..CLERKS).map(|at| world.node(format!("clerk{at}"), Faults::STORM)).collect();
    let auditor =
        world.node("auditor", Faults { unavailable: 0.1, delay: Duration::from_millis(3), ..Faults::NONE });
    let cutting = tokio::spawn(cut_and_heal(world.clone(), nodes.clone()));
    let auditing = tokio::spawn(audit(auditor, conserved.clone()));
    let clerks: Vec<_> =
        nodes.iter().map(|node| tokio::spawn(clerk(node.clone(), accounts.clone()))).collect();
    let mut made = 0;
    for clerk in clerks {
        made += clerk.await.expect("a clerk ends by itself");
    }
    cutting.abort();
    calm(&nodes);
    if auditing.is_finished() {
        return auditing.await.expect("an auditor does not panic").map(|()| made);
    }
    auditing.abort();
    // What comes late must not change the sum either.
    world.env.sleep(CALM).await;
    conserved.check(&world.store.read(conserved.reads()).await.expect("the bare store has no faults"))?;
    Ok(made)
}

async fn clerk(node: Node, accounts: Vec<Key>) -> usize {
    let key = Key::from(format!("lane/{}", node.name).as_str());
    let mut made = 0;
    let mut lane = None;
    for _ in 0..TRANSFERS {
        let lane = match &mut lane {
            Some(lane) => lane,
            empty => match Lane::open(node.store(), node.env.clone(), key.clone(), RETRY).await {
                Ok(opened) => empty.insert(opened),
                Err(_) => continue,
            },
        };
        match transfer(&node, lane, &accounts).await {
            Ok(()) => made += 1,
            Err(error) => node.record(format_args!("gives up a transfer: {error}")),
        }
    }
    made
}

async fn transfer(node: &Node, lane: &mut Lane, accounts: &[Key]) -> Result<(), LaneError> {
    let pick = |exclusive| usize::try_from(node.env.random_in(0..exclusive as u64)).expect("few accounts");
    let from = pick(ACCOUNTS);
    let to = (from + 1 + pick(ACCOUNTS - 1)) % ACCOUNTS;
    let (from, to, store) = (&accounts[from], &accounts[to], Arc::new(node.clone()));
    let wanted = node.env.random_in(1..50);
    lane.update(|| {
        let store = Arc::clone(&store);
        async move {
            let snapshot = store.read(vec![Read::Key(from.clone()), Read::Key(to.clone())]).await?;
            let (source, target) = (snapshot.key(0).expect("it exists"), snapshot.key(1).expect("it exists"));
            let moved = wanted.min(balance(&source.value));
            let commit = Commit::new()
                .check(Check::Version(from.clone(), source.version))
                .check(Check::Version(to.clone(), target.version))
                .set(from.clone(), amount(balance(&source.value) - moved))
                .set(to.clone(), amount(balance(&target.value) + moved));
            Ok((commit, ()))
        }
    })
    .await
    .map(|_| ())
}

/// Looks again and again; ends only if the sum is wrong.
async fn audit(node: Node, conserved: Conserved) -> Result<(), String> {
    loop {
        if let Ok(snapshot) = node.read(conserved.reads()).await {
            conserved.check(&snapshot)?;
        }
        node.env.sleep(Duration::from_millis(7)).await;
    }
}

fn amount(amount: u64) -> Bytes {
    Bytes::copy_from_slice(&amount.to_be_bytes())
}
