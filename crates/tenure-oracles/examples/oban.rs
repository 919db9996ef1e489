//! Runs where Oban has its leader: `cargo run --example oban --
//! "oban+postgres://localhost/app?name=Oban&node=web@host"`.
//!
//! The node is what Oban calls it: see the column `node` of `oban_peers`. Without an argument, a stand-in for Oban is made on a local server, in a schema of its
//! own: it is led by this node at first, and by another later.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure_singleton::{Mandate, SingletonBuilder};
use tokio_postgres::{Client, NoTls};

#[path = "shared/mod.rs"]
mod shared;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url =
        shared::url("oban", "TENURE_TEST_POSTGRES", "postgres://postgres@localhost/postgres", "name=Oban");
    let mut settings = tenure_oracles::ObanSettings::from_url(&url, &shared::node())?;
    let alone = std::env::args().nth(1).is_none();
    let oban = if alone { Some(StandIn::start(&url, &settings.node).await?) } else { None };
    if let Some(oban) = &oban {
        settings.prefix.clone_from(&oban.schema);
        (settings.interval, settings.settle) = (Duration::from_millis(250), Duration::from_millis(500));
    }
    println!("looking for {} as the leader of {}", settings.node, settings.name);
    let oracle = tenure_oracles::ObanPeer::new(settings)?;
    let (led, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (leads, stops) = (Arc::clone(&led), Arc::clone(&stopped));
    let beside = SingletonBuilder::with_oracle("beside Oban", oracle, move |mandate: Mandate| {
        let (leads, stops) = (Arc::clone(&leads), Arc::clone(&stops));
        async move {
            leads.fetch_add(1, Ordering::SeqCst);
            let _end = End(stops);
            println!("leading, since {:?} microseconds after 1970", mandate.term());
            mandate.cancelled().await;
        }
    });
    let Some(oban) = oban else { return shared::run(beside).await };
    let moves = async {
        tenure_store::Env::system().sleep(Duration::from_secs(2)).await;
        oban.elect("another@host").await?;
        println!("Oban's leader is another");
        Ok::<_, Box<dyn Error>>(())
    };
    let (ran, moved) = tokio::join!(shared::run(beside), moves);
    oban.end().await?;
    ran.and(moved)?;
    let times = (led.load(Ordering::SeqCst), stopped.load(Ordering::SeqCst));
    if times == (1, 1) { Ok(()) } else { Err(format!("it led and stopped {times:?} times").into()) }
}

/// Counts the end of a child, however it comes: one whose leadership is lost is aborted at once.
struct End(Arc<AtomicUsize>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        println!("stopping");
    }
}

/// Oban's table, and somebody who writes it.
struct StandIn {
    client: Client,
    schema: String,
}

impl StandIn {
    /// Makes it, led by this node.
    async fn start(url: &str, node: &str) -> Result<Self, Box<dyn Error>> {
        let server = url.trim_start_matches("oban+").split('?').next().unwrap_or_default();
        let (client, connection) = tokio_postgres::connect(server, NoTls).await?;
        tokio::spawn(connection);
        let schema = format!("oban_example_{}", std::process::id());
        let table = format!(
            "CREATE SCHEMA {schema};
            CREATE UNLOGGED TABLE {schema}.oban_peers (name text PRIMARY KEY, node text NOT NULL,
                started_at timestamp NOT NULL, expires_at timestamp NOT NULL)"
        );
        client.batch_execute(&table).await?;
        let oban = Self { client, schema };
        oban.elect(node).await?;
        Ok(oban)
    }

    /// That node leads from now on.
    async fn elect(&self, node: &str) -> Result<(), Box<dyn Error>> {
        let statement = format!(
            "INSERT INTO {}.oban_peers SELECT 'Oban', $1, now, now + interval '30 s'
                FROM (SELECT clock_timestamp() AT TIME ZONE 'UTC' AS now) AS clock
            ON CONFLICT (name) DO UPDATE
                SET node = excluded.node, started_at = excluded.started_at, expires_at = excluded.expires_at",
            self.schema
        );
        self.client.execute(&statement, &[&node]).await?;
        Ok(())
    }

    async fn end(&self) -> Result<(), Box<dyn Error>> {
        Ok(self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await?)
    }
}
