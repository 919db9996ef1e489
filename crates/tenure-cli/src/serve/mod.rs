//! `tenure serve`: a daemon that programs in any language talk to, over HTTP.

mod leases;
mod problem;

use std::{
    io::{self, Write as _},
    net::SocketAddr,
};

use anyhow::Context as _;
use axum::{Router, extract::DefaultBodyLimit};
use clap::Args;
use tenure::cluster::{Cluster, Settings};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};

use crate::{
    exit::Exit,
    options::{StoreOptions, host_and_process},
};

/// The most bytes that a request may have.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Serve leases to programs in any language, over HTTP.
#[derive(Args, Clone, Debug)]
#[command(after_help = ROUTES)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    store: StoreOptions,

    /// Where to listen: this machine only, since whoever reaches it may take part
    #[arg(long, default_value = "127.0.0.1:4040", value_name = "ADDRESS")]
    listen: SocketAddr,

    /// What this node is called; no other may be called so [default: host and process]
    #[arg(long)]
    node: Option<String>,
}

const ROUTES: &str = "\
A lease is an election in which the program that asks is a candidate. Everything is kept in the store: any number of daemons may serve one cluster, and a lease outlasts \
the daemon that granted it.

  POST   /locks/NAME/claim    {\"holder\": \"me\", \"ttl_ms\": 15000}   200 held, 409 held by another
  POST   /locks/NAME/refresh  {\"holder\": \"me\"}                    200 held, 409 lost
  DELETE /locks/NAME          {\"holder\": \"me\"}                    204 given up, 409 held by another
  GET    /locks/NAME                                              200 who holds it, 404 nobody";

/// Serves until it is told to stop.
pub(crate) async fn serve(options: ServeOptions) -> anyhow::Result<Exit> {
    let ServeOptions { store, listen, node } = options;
    anyhow::ensure!(
        listen.ip().is_loopback(),
        "--listen {listen} is open to other machines, and whoever reaches it may take part: use a loopback address such as 127.0.0.1:{}",
        listen.port()
    );
    let settings = Settings::new(&store.cluster, &node.unwrap_or_else(host_and_process))?;
    let opened = tenure::open(&store.store)
        .await
        .with_context(|| Exit::Unavailable.context("can't open the store"))?;
    let cluster = Cluster::join(opened, settings)
        .await
        .with_context(|| Exit::Unavailable.context("can't join the cluster"))?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("can't listen on {listen}"))?;
    let address = listener.local_addr()?;
    let routes =
        Router::new().merge(leases::routes(cluster.leases())).layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    // For whoever waits for it to be ready, and wants to know the port.
    let _ = writeln!(io::stdout(), "tenure: serving on http://{address}");
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let stop = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    };
    axum::serve(listener, routes).with_graceful_shutdown(stop).await?;
    cluster.leave().await;
    Ok(Exit::Command(0))
}
