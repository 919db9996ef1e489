//! `tenure serve`: a daemon that programs in any language talk to, over HTTP.
//!
//! | file | what it has |
//! | --- | --- |
//! | `listen.rs`, `connections.rs`, `limits.rs`, `access.rs` | connections and TLS; how many there are; what a request may cost; who may do what |
//! | `api/`, `leases.rs`, `problem.rs` | the routes, with the document that describes them, and their errors |
//! | `feed.rs`, `past.rs`, `streams.rs`, `registries.rs` | what is told as it happens |
//! | `page/` | the dashboard |
//! | `metrics.rs`, `census.rs`, `logs.rs`, `otlp.rs` | what is measured, counted, logged and traced |

mod access;
mod api;
mod census;
mod connections;
mod feed;
mod leases;
mod limits;
mod listen;
mod logs;
mod metrics;
#[cfg(feature = "otel")]
mod otlp;
mod page;
mod past;
mod problem;
mod registries;
mod streams;

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use clap::Args;
use metrics_exporter_prometheus::PrometheusHandle;
use tenure::{
    cluster::{Cluster, Leases, Onlooker, Settings, peer::LinkSettings},
    registry::RegistryView,
    store::{Env, Measured, Name, Password, Store},
};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

pub(crate) use self::api::document;
use self::{
    access::Access, census::Census, feed::Feed, listen::TlsOptions, logs::LogOptions, registries::Registries,
};
use crate::{
    exit::Exit,
    options::{StoreOptions, host_and_process},
};

/// Serve elections, servers and names to programs in any language, over HTTP, and a dashboard to people.
#[derive(Args, Clone, Debug)]
#[command(after_help = ROUTES)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    store: StoreOptions,

    /// Where to listen. Any address that is not of this machine alone needs --tokens, --tls-certificate and --tls-key
    #[arg(long, default_value = "127.0.0.1:4040", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// What this node is called; no other may be called so [default: host and process]
    #[arg(long)]
    node: Option<String>,

    /// Who may do what: a file with a role (read, take-part, operate) and a token a line
    #[arg(long, value_name = "FILE", env = "TENURE_TOKENS")]
    tokens: Option<PathBuf>,

    /// A name that the daemon is called by, beside its address; may be given again
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,

    #[command(flatten)]
    tls: TlsOptions,

    /// Where other nodes reach this one, for broadcasts
    #[arg(long, value_name = "ADDRESS")]
    links: Option<SocketAddr>,

    /// A file with the secret that all nodes with links share
    #[arg(long, value_name = "FILE", requires = "links")]
    links_secret: Option<PathBuf>,

    #[command(flatten)]
    logs: LogOptions,

    #[cfg(feature = "otel")]
    #[command(flatten)]
    otlp: otlp::OtlpOptions,
}

/// How long the farewell to the cluster may take when the store does not answer.
const LEAVE_TIME: Duration = Duration::from_secs(5);

const ROUTES: &str = "\
Everything is kept in the store: any number of daemons may serve one cluster, and what one of them has granted outlasts it.

  GET    /                    the dashboard
  GET    /openapi.json        all routes, for programs
  GET    /metrics  /healthz  /readyz

  POST   /locks/NAME/claim    {\"holder\": \"me\", \"ttl_ms\": 15000}   200 held, 409 held by another
  POST   /locks/NAME/refresh  {\"holder\": \"me\"}                    200 held, 409 lost
  DELETE /locks/NAME          {\"holder\": \"me\"}                    204 given up, 409 held by another

On a loopback address, without --tokens, whoever reaches it may do everything.";

/// What all requests share.
#[derive(Debug)]
pub(crate) struct Daemon {
    cluster: Cluster,
    look: Onlooker,
    leases: Arc<Leases>,
    registries: Arc<Registries>,
    feed: Arc<Feed>,
    census: Arc<Census>,
    metrics: PrometheusHandle,
    /// What kind of store it is.
    store: String,
    /// Ends streams, and takes no more connections.
    stop: CancellationToken,
}

impl Daemon {
    fn registry(&self, name: &Name) -> Arc<RegistryView> {
        self.registries.view(name)
    }
}

impl ServeOptions {
    /// Who may do what. Refuses to be open to others.
    fn access(&self, listen: SocketAddr) -> anyhow::Result<Access> {
        let hosts = access::hosts(listen, &self.hosts);
        match &self.tokens {
            Some(file) => Access::from_file(file, hosts),
            None => {
                ensure!(
                    listen.ip().is_loopback(),
                    "--listen {listen} is open to other machines, and whoever reaches it could do everything: give --tokens FILE, or listen on 127.0.0.1:{}",
                    listen.port()
                );
                ensure!(
                    !self.tls.wants_clients(),
                    "--client-ca lets clients prove who they are, and nothing says what they may do: give --tokens FILE with a line such as: operate sha256:FINGERPRINT"
                );
                Ok(Access::open(hosts))
            }
        }
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        let node = self.node.clone().unwrap_or_else(host_and_process);
        let mut settings = Settings::new(&self.store.cluster, &node)?;
        settings.version = env!("CARGO_PKG_VERSION").to_owned();
        settings.labels.insert("role".to_owned(), "daemon".to_owned());
        if let Some(bind) = self.links {
            let mut links = LinkSettings::new(bind);
            match &self.links_secret {
                Some(file) => {
                    let text = std::fs::read_to_string(file)
                        .with_context(|| format!("can't read --links-secret {}", file.display()))?;
                    links.secret = Some(Password::new(text.trim()));
                }
                None => links.insecure_on_loopback = true,
            }
            settings.links = Some(links);
        }
        settings.validate()?;
        Ok(settings)
    }
}

/// Serves until it is told to stop.
pub(crate) async fn serve(options: ServeOptions) -> anyhow::Result<Exit> {
    let (settings, env) = (options.settings()?, Env::system());
    #[cfg(feature = "otel")]
    let (traces, spans) = options.otlp.start(&settings, env.clone())?.unzip();
    #[cfg(not(feature = "otel"))]
    let spans = None;
    options.logs.install(spans)?;
    listen::raise_files();
    let (tls, access) = (options.tls.acceptor()?, Arc::new(options.access(options.listen)?));
    ensure!(
        options.listen.ip().is_loopback() || tls.is_some(),
        "--listen {} is open to other machines, and tokens would cross the network in clear: give --tls-certificate and --tls-key",
        options.listen
    );
    // Before anything is asked of the store: an address that can't be had is found out at once.
    let (listener, address) = listen::bind(options.listen).await?;
    let metrics = metrics::install(env.clone())?;
    let cluster_name = settings.cluster.clone();
    let store: Arc<dyn Store> = Arc::new(Measured::new(options.store.open().await?, env.clone()));
    let look = Onlooker::new(Arc::clone(&store), cluster_name);
    let cluster = Cluster::join(store, settings)
        .await
        .with_context(|| Exit::Unavailable.context("can't join the cluster"))?;
    let registries = Arc::new(Registries::new(look.clone()));
    let daemon = Arc::new(Daemon {
        leases: cluster.leases(),
        feed: Feed::start(look.clone(), Arc::clone(&registries)),
        census: Census::new(look.clone()),
        cluster: cluster.clone(),
        store: options.store.kind().to_owned(),
        stop: CancellationToken::new(),
        look,
        registries,
        metrics,
    });
    let stop = daemon.stop.clone();
    let routes = api::service(daemon, &access);
    // Before anybody is told that it is there, and may end it.
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // For whoever waits for it to be ready, and wants to know the port.
    let scheme = if options.tls.is_on() { "https" } else { "http" };
    let _ = writeln!(io::stdout(), "tenure: serving on {scheme}://{address}");
    let stopping = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
        tracing::info!("stopping: a second signal ends it at once");
        stopping.cancel();
        let again = tokio::select! {
            _ = term.recv() => SignalKind::terminate(),
            _ = int.recv() => SignalKind::interrupt(),
        };
        std::process::exit(128 + again.as_raw_value());
    });
    listen::serve(listener, tls, routes, stop, env.clone()).await;
    if env.timeout(LEAVE_TIME, cluster.leave()).await.is_err() {
        tracing::warn!("the store did not answer in {LEAVE_TIME:?}: others end the session of this node");
    }
    #[cfg(feature = "otel")]
    if let Some(traces) = traces {
        traces.end().await;
    }
    Ok(Exit::Command(0))
}
