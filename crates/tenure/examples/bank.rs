//! Money moves between two accounts, each a durable server, while one of the processes that serve them is killed. Nothing is lost, and nothing is paid twice.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure::prelude::*;
use tokio::task::JoinHandle;

const TELLERS: u64 = 4;
const TRANSFERS: u64 = 30;
const START: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Default)]
struct Account;

/// Sends an amount to another account.
#[derive(Serialize, Deserialize)]
struct Transfer {
    to: String,
    amount: u64,
}

/// An amount that comes in.
#[derive(Serialize, Deserialize)]
struct Deposit(u64);

impl Server for Account {
    const KIND: &'static str = "account";
    type State = u64;
    type Call = Transfer;
    /// Whether there was enough.
    type Reply = bool;
    type Cast = Deposit;
    type Effect = Never;

    fn init(_: &Name) -> u64 {
        START
    }

    fn handle_call(
        &self,
        balance: &mut u64,
        Transfer { to, amount }: &Transfer,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<bool>, Failure> {
        let Some(left) = balance.checked_sub(*amount) else { return Ok(Some(false)) };
        *balance = left;
        // In the commit that takes the money away, it is on its way.
        context.cast::<Account>(to, &Deposit(*amount))?;
        Ok(Some(true))
    }

    fn handle_cast(
        &self,
        balance: &mut u64,
        Deposit(amount): &Deposit,
        _: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        *balance += amount;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    if let (Some(url), Some(name)) = (args.next(), args.next()) {
        return serve(&url, &name).await;
    }
    let folder = tempfile::tempdir()?;
    let url = format!("sqlite:{}", folder.path().join("bank.db").display());
    let start = |name: &str| {
        Ok::<_, std::io::Error>(Process(
            Command::new(std::env::current_exe()?).args([url.as_str(), name]).spawn()?,
        ))
    };

    // This node only sends: what it wants goes through the queues, and the answers come back through the store.
    let bank = Cluster::join(tenure::open(&url).await?, Settings::new("bank", "tellers")?).await?;
    let accounts = [bank.server::<Account>("ann")?, bank.server::<Account>("bob")?];
    let (first, done) = (start("first")?, Arc::new(AtomicU64::new(0)));
    let tellers: Vec<_> =
        (0..TELLERS).map(|teller| tokio::spawn(pay(teller, accounts.clone(), Arc::clone(&done)))).collect();

    let env = Env::system();
    let is_half = || done.load(Ordering::SeqCst) >= TELLERS * TRANSFERS / 2;
    while !is_half() && !tellers.iter().any(JoinHandle::is_finished) {
        env.sleep(Duration::from_millis(1)).await;
    }
    drop(first);
    println!("the process that serves the accounts was killed at its work, and another is started");
    let _second = start("second")?;
    let mut paid = [0, 0];
    for teller in tellers {
        let [ann, bob] = teller.await??;
        paid = [paid[0] + ann, paid[1] + bob];
    }

    // What was paid is on its way until it is handled: wait for the last of it.
    let due = [START - paid[0] + paid[1], START - paid[1] + paid[0]];
    let [ann, bob] = env
        .timeout(PATIENCE, settled(&env, &accounts, due))
        .await
        .map_err(|_| "money was lost or made")??;
    println!("Ann has {ann}, Bob has {bob}: {} in all", ann + bob);
    assert_eq!(ann + bob, 2 * START);
    bank.leave().await;
    Ok(())
}

/// What a process does until it is killed.
async fn serve(url: &str, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::join(tenure::open(url).await?, Settings::new("bank", name)?).await?;
    cluster.serve::<Account>()?;
    std::future::pending().await
}

/// Makes transfers, one after another, and returns how much each account has paid.
async fn pay(
    teller: u64,
    accounts: [ServerRef<Account>; 2],
    done: Arc<AtomicU64>,
) -> Result<[u64; 2], ServerError> {
    let mut paid = [0, 0];
    for number in 0..TRANSFERS {
        let (from, to) = if number % 3 == 0 { (1, 0) } else { (0, 1) };
        let transfer = Transfer { to: accounts[to].id().to_string(), amount: 1 + number % 7 };
        let amount = transfer.amount;
        // Asked again under the same key, as after an answer that was lost, it would be answered and not paid again.
        let options = CallOptions::default().timeout(PATIENCE).idempotency_key(format!("{teller}-{number}"));
        if accounts[from].call_with(transfer, options).await? {
            paid[from] += amount;
        }
        done.fetch_add(1, Ordering::SeqCst);
    }
    Ok(paid)
}

/// Waits until the accounts have what is due.
async fn settled(
    env: &Env,
    accounts: &[ServerRef<Account>; 2],
    due: [u64; 2],
) -> Result<[u64; 2], ServerError> {
    loop {
        let balances =
            [accounts[0].read(|balance| *balance).await?, accounts[1].read(|balance| *balance).await?];
        if balances == due {
            return Ok(balances);
        }
        env.sleep(Duration::from_millis(10)).await;
    }
}

/// A process that is killed when this is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}
