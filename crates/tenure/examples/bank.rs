//! Money moves between two accounts, each a durable server, while one of the processes that serve them is killed. Nothing is lost, and nothing is paid twice.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{process::Command, time::Duration};

use serde::{Deserialize, Serialize};
use tenure::prelude::*;

const TRANSFERS: u64 = 100;
const START: u64 = 1000;

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
    let start = |name: &str| Command::new(std::env::current_exe()?).args([&url, name]).spawn();
    let (mut one, mut two) = (start("one")?, start("two")?);
    let outcome = transfer(&url, || {
        two.kill()?;
        two.wait()
    })
    .await;
    // Whatever came of it, no process stays.
    for process in [&mut one, &mut two] {
        process.kill()?;
        process.wait()?;
    }
    outcome
}

/// What each of the two processes does until it is killed.
async fn serve(url: &str, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::join(tenure::open(url).await?, Settings::new("bank", name)?).await?;
    cluster.serve::<Account>()?;
    std::future::pending().await
}

async fn transfer<T>(
    url: &str,
    kill: impl FnOnce() -> std::io::Result<T>,
) -> Result<(), Box<dyn std::error::Error>> {
    // This node only sends: what it wants goes through the queues, and the answers come back through the store.
    let teller = Cluster::join(tenure::open(url).await?, Settings::new("bank", "teller")?).await?;
    let accounts = [teller.server::<Account>("ann")?, teller.server::<Account>("bob")?];
    let (mut kill, mut paid) = (Some(kill), [0, 0]);
    for number in 0..TRANSFERS {
        if number == TRANSFERS / 2 {
            println!("{number} transfers are done; one of the two servers is killed");
            kill.take().map(|kill| kill()).transpose()?;
        }
        let (from, to) = if number % 3 == 0 { (1, 0) } else { (0, 1) };
        let amount = 1 + number % 7;
        let order = Transfer { to: accounts[to].id().to_string(), amount };
        // With a key of its own, it would be safe to ask again, had the answer been lost with this process.
        let options = CallOptions::default()
            .timeout(Duration::from_secs(30))
            .idempotency_key(format!("transfer-{number}"));
        if accounts[from].call_with(order, options).await? {
            paid[from] += amount;
        }
    }

    // What was paid is on its way until it is handled: wait for the last of it.
    let env = Env::system();
    let due = [START - paid[0] + paid[1], START - paid[1] + paid[0]];
    let settled = async {
        loop {
            let balances =
                [accounts[0].read(|balance| *balance).await?, accounts[1].read(|balance| *balance).await?];
            if balances == due {
                return Ok::<_, ServerError>(balances);
            }
            env.sleep(Duration::from_millis(20)).await;
        }
    };
    let [ann, bob] =
        env.timeout(Duration::from_secs(30), settled).await.map_err(|_| "money was lost or made")??;
    println!("Ann has {ann}, Bob has {bob}: {} in all", ann + bob);
    assert_eq!(ann + bob, 2 * START);
    teller.leave().await;
    Ok(())
}
