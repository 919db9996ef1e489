//! A node of the demo, as a process: it stands for an office, runs a singleton if it may, serves a counter, and has guests in a registry.
//!
//! It ends when its standard input does: nothing of it outlives the demo.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, Write as _},
    net::Ipv4Addr,
    process::ExitCode,
    sync::mpsc::{SyncSender, sync_channel},
    thread,
    time::Duration,
};

use anyhow::Context as _;
use tenure::{cluster::peer::LinkSettings, prelude::*, registry::Spawned, server, store::Password};
use tokio::sync::mpsc;

use super::{
    boot_nanos,
    wire::{Order, Report},
};

/// The hidden command that starts one, followed by the cluster and the node's name.
pub(crate) const COMMAND: &str = "demo-node";

/// Where the secret of the links between nodes is: it is no argument, since those can be read by everybody.
pub(super) const SECRET: &str = "TENURE_DEMO_SECRET";

/// Where the store's URL is, for the same reason.
pub(super) const STORE: &str = "TENURE_STORE";

/// The office, the singleton, the counter and the registry.
const OFFICE: &str = "leader";
const SINGLETON: &str = "auditor";
const COUNTER: &str = "visits";
const REGISTRY: &str = "guests";

/// How long a session lives without being renewed. It decides only where a death can't be proven.
const TTL: Duration = Duration::from_secs(6);

/// Guests of each node.
const GUESTS: [&str; 4] = ["alice", "bob", "carol", "dave"];

/// Messages that wait for a guest: nobody sends any but out of curiosity.
const MAILBOX: usize = 16;

/// Between two looks at the counter and at the names.
const LOOK_PAUSE: Duration = Duration::from_millis(250);

/// Before something is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Orders that wait: the demo has fewer under way.
const ORDERS_MAX: usize = 256;

/// Reports that wait to be read. If a demo that was stopped misses some, it asks again.
const REPORTS_MAX: usize = 4096;

/// The longest that one try of an increment may take.
const COUNT_TIME: Duration = Duration::from_secs(5);

/// A counter in the store.
#[derive(Default)]
struct Counter;

impl Server for Counter {
    const KIND: &'static str = "counter";
    /// Nobody asks again after so long.
    const POLICY: server::Policy =
        server::Policy { answers_kept: Duration::from_secs(600), ..server::Policy::DEFAULT };
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

/// Runs a node until it is killed, or its demo is gone.
pub(crate) fn main(arguments: &[OsString]) -> ExitCode {
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    if let Err(error) = done {
        // Nobody may be there to read it.
        let _ = writeln!(io::stderr(), "{error:#}");
    }
    ExitCode::FAILURE
}

async fn run(arguments: &[OsString]) -> anyhow::Result<()> {
    let [Some(cluster), Some(name)] = [0, 1].map(|place| arguments.get(place).and_then(|text| text.to_str()))
    else {
        anyhow::bail!("only `tenure demo` starts this");
    };
    let url = std::env::var(STORE).context(STORE)?;
    let mut links = LinkSettings::new((Ipv4Addr::LOCALHOST, 0).into());
    links.secret = Some(Password::new(&std::env::var(SECRET).context(SECRET)?));
    let mut settings = Settings::new(cluster, name)?.with_ttl(TTL);
    settings.links = Some(links);
    let (orders, told) = (listen(), Teller::start());
    let cluster = Cluster::join(tenure::open(&url).await?, settings).await?;
    cluster.serve::<Counter>()?;
    let counter = cluster.server::<Counter>(COUNTER)?;
    let _auditor = audit(&cluster, &counter, &told)?;
    tokio::spawn(stand(cluster.election(OFFICE)?, told.clone()));
    let guests = cluster.registry(REGISTRY).await?;
    for guest in GUESTS {
        let first = register(&guests, format!("{guest}@{name}")).await;
        tokio::spawn(host(guests.clone(), first));
    }
    tokio::spawn(count_names(guests, told.clone()));
    told.tell(&Report::Ready);
    obey(orders, &counter, &told).await;
    Ok(())
}

/// Hears orders, and ends this process when there can't be any more.
fn listen() -> mpsc::Receiver<Order> {
    let (sender, orders) = mpsc::channel(ORDERS_MAX);
    thread::spawn(move || {
        let lines = io::stdin().lock().lines().map_while(Result::ok);
        for order in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
            if sender.blocking_send(order).is_err() {
                break;
            }
        }
        std::process::exit(0);
    });
    orders
}

/// Tells the demo. It never waits: the node must go on though nobody listens.
#[derive(Clone)]
struct Teller(SyncSender<Report>);

impl Teller {
    fn start() -> Self {
        let (sender, reports) = sync_channel::<Report>(REPORTS_MAX);
        thread::spawn(move || {
            for report in reports {
                let Ok(line) = serde_json::to_string(&report) else { continue };
                // If nobody is there to read it, the input has ended as well.
                let _ = writeln!(io::stdout(), "{line}");
            }
        });
        Self(sender)
    }

    fn tell(&self, report: &Report) {
        let _ = self.0.try_send(report.clone());
    }
}

/// Stands for the office, again and again.
async fn stand(office: Election, told: Teller) {
    loop {
        match office.campaign().await {
            Ok(leadership) => {
                let term = leadership.term().0;
                told.tell(&Report::Leads { term, at: boot_nanos() });
                leadership.lost().await;
                told.tell(&Report::Lost { term });
            }
            Err(_) => Env::system().sleep(RETRY_PAUSE).await,
        }
    }
}

/// The singleton: whoever runs it looks at the counter.
fn audit(cluster: &Cluster, counter: &ServerRef<Counter>, told: &Teller) -> anyhow::Result<Singleton> {
    let (counter, told) = (counter.clone(), told.clone());
    let work = move |mandate: Mandate| {
        let (counter, told) = (counter.clone(), told.clone());
        async move {
            told.tell(&Report::Works { term: mandate.term().unwrap_or_default() });
            while !mandate.is_cancelled() {
                if let Ok(total) = counter.read(|total| *total).await {
                    told.tell(&Report::Audited { total });
                }
                let _ = Env::system().timeout(LOOK_PAUSE, mandate.cancelled()).await;
            }
        }
    };
    Ok(cluster.singleton(SINGLETON, work).start()?)
}

/// Registers a guest, however often it takes.
async fn register(guests: &Registry, name: String) -> Spawned {
    let guest = |mut inbox: Inbox<String, String>| async move {
        while let Some(letter) = inbox.recv().await {
            let words = letter.message.clone();
            // Nobody waits for an answer to what was merely sent.
            let _ = letter.reply(&words);
        }
    };
    loop {
        match guests.spawn(&name, MAILBOX, guest).await {
            Ok(spawned) => return spawned,
            Err(_) => Env::system().sleep(RETRY_PAUSE).await,
        }
    }
}

/// Keeps a guest registered.
async fn host(guests: Registry, mut guest: Spawned) {
    loop {
        guest.ended().await;
        let name = guest.name().to_owned();
        guest = register(&guests, name).await;
    }
}

/// Tells how many names there are, whenever that changes.
async fn count_names(guests: Registry, told: Teller) {
    let mut last = None;
    loop {
        let count = guests.len();
        if last.replace(count) != Some(count) {
            told.tell(&Report::Names { count });
        }
        Env::system().sleep(LOOK_PAUSE).await;
    }
}

/// Does what the demo asks for.
async fn obey(mut orders: mpsc::Receiver<Order>, counter: &ServerRef<Counter>, told: &Teller) {
    while let Some(order) = orders.recv().await {
        let (counter, told) = (counter.clone(), told.clone());
        tokio::spawn(async move {
            let report = match order {
                Order::Count { number } => {
                    let options = CallOptions::default().timeout(COUNT_TIME);
                    match counter.call_with(1, options.idempotency_key(number.to_string())).await {
                        Ok(total) => Report::Counted { number, total },
                        Err(error) => Report::Uncounted { number, why: error.to_string() },
                    }
                }
                Order::Read => match counter.read(|total| *total).await {
                    Ok(total) => Report::Value { total },
                    Err(error) => Report::Unread { why: error.to_string() },
                },
            };
            told.tell(&report);
        });
    }
}
