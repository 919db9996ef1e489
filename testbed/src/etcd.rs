//! [`Etcd`]: a private etcd cluster.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    Options,
    http::get,
    keeper::{Keeper, Started},
    port::Port,
    programs::{Account, program, run, text},
    tls::Certificates,
    wait,
};

/// Starts with other ports, should somebody take one that was just free.
const PORT_TRIES: usize = 5;

/// How long a cluster may be without a leader: many times the election timeout.
const ELECTION_LIMIT: Duration = Duration::from_secs(30);

/// What differs from etcd's own defaults: its answer to a lost leader is fit for one machine, not for the ocean.
const FLAGS: &[&str] = &["--heartbeat-interval=50", "--election-timeout=500", "--logger=zap"];

/// A private etcd cluster, gone with this value.
#[derive(Debug)]
pub struct Etcd {
    nodes: Vec<Node>,
    options: Options,
    certificates: Option<Certificates>,
}

#[derive(Debug)]
struct Node {
    keeper: Keeper,
    client: Port,
    peer: Port,
    /// Where it tells its state, without TLS and without a password.
    metrics: Port,
}

impl Etcd {
    /// Starts a cluster of so many nodes. Returns when each of them can read through the leader.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of a log.
    pub fn start(nodes: usize, options: &Options) -> Result<Self> {
        options.check()?;
        for _ in 0..PORT_TRIES {
            if let Some(cluster) = Self::try_start(nodes, options)? {
                cluster.demand_password()?;
                return Ok(cluster);
            }
        }
        bail!("etcd found ports in use, {PORT_TRIES} times one after the other");
    }

    /// Where to connect: `etcd://127.0.0.1:PORT,127.0.0.1:PORT,...`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("etcd://{}{}", self.options.login("root", ""), self.endpoints().join(","))
    }

    /// The address of each node's service for clients: `127.0.0.1:PORT`.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.client.number())).collect()
    }

    /// The port of each node's service for clients.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.client.number()).collect()
    }

    /// The port of each node's page `/metrics`, without TLS and without a password.
    #[must_use]
    pub fn metrics_ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.metrics.number()).collect()
    }

    /// The index of the node that leads now. Waits for an election to end.
    ///
    /// # Panics
    /// If there is no leader for half a minute, as when most nodes are dead.
    #[must_use]
    pub fn leader(&self) -> usize {
        let leads = |node: &Node| node.metric("etcd_server_is_leader") == Some(1);
        let found = wait::until(ELECTION_LIMIT, || self.nodes.iter().position(leads));
        found.unwrap_or_else(|| panic!("etcd has no leader.\n{}", self.nodes[0].keeper.tail()))
    }

    /// Kills a node with SIGKILL, and waits until it is gone. Its data stays.
    ///
    /// # Errors
    /// If its keeper is gone.
    ///
    /// # Panics
    /// If there is no node with that index.
    pub fn kill(&self, index: usize) -> Result<()> {
        self.nodes[index].keeper.kill()
    }

    /// Starts a node again after a [`kill`](Self::kill), with the same ports and data. Returns when it can read through the leader; so
    /// do not wait for the first of too few: start most of them at once, each from a thread of its own.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of its log.
    ///
    /// # Panics
    /// If there is no node with that index.
    pub fn restart(&self, index: usize) -> Result<()> {
        self.kill(index)?;
        let node = &self.nodes[index];
        node.keeper.restart(&self.command(index)?, |_| node.is_healthy())
    }

    /// The process id of a node, unless it was killed.
    ///
    /// # Panics
    /// If there is no node with that index.
    #[must_use]
    pub fn process(&self, index: usize) -> Option<u32> {
        self.nodes[index].keeper.server()
    }

    /// All that a node has logged.
    ///
    /// # Panics
    /// If there is no node with that index.
    #[must_use]
    pub fn log(&self, index: usize) -> String {
        self.nodes[index].keeper.log()
    }

    /// The folder of each node.
    #[must_use]
    pub fn dirs(&self) -> Vec<&Path> {
        self.nodes.iter().map(|node| node.keeper.folder()).collect()
    }

    /// The certificate of the authority that signed the servers', with [`Options::tls`].
    ///
    /// # Panics
    /// Without that option.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.certificates.as_ref().expect("the cluster was started with `tls`").ca()
    }

    /// A client's certificate and its key, with [`Options::tls`].
    ///
    /// # Panics
    /// Without that option.
    #[must_use]
    pub fn client_certificate(&self) -> (PathBuf, PathBuf) {
        self.certificates.as_ref().expect("the cluster was started with `tls`").client()
    }

    /// `None` if a port was taken.
    fn try_start(nodes: usize, options: &Options) -> Result<Option<Self>> {
        let nodes = (0..nodes).map(|_| Node::new()).collect::<Result<Vec<_>>>()?;
        let first = &nodes.first().context("an etcd cluster has at least one node")?.keeper;
        let certificates = options.tls.then(|| Certificates::new(first)).transpose()?;
        for node in nodes.iter().skip(1) {
            certificates.as_ref().map(|made| made.copy_to(&node.keeper)).transpose()?;
        }
        let cluster = Self { nodes, options: options.clone(), certificates };
        // All before any is waited for: one alone never becomes ready.
        let begun = cluster.nodes.iter().enumerate();
        let begun = begun.map(|(index, node)| node.keeper.begin(&cluster.command(index)?));
        let begun = begun.collect::<Result<Vec<_>>>()?;
        for (node, begun) in cluster.nodes.iter().zip(&begun) {
            if node.keeper.await_ready(begun, |_| node.is_healthy())? == Started::Busy {
                return Ok(None);
            }
        }
        Ok(Some(cluster))
    }

    fn command(&self, index: usize) -> Result<Vec<String>> {
        let node = &self.nodes[index];
        let peer_url = |node: &Node| format!("http://127.0.0.1:{}", node.peer.number());
        let members = self.nodes.iter().enumerate();
        let members: Vec<String> =
            members.map(|(index, node)| format!("n{index}={}", peer_url(node))).collect();
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        let client_url = format!("{scheme}://127.0.0.1:{}", node.client.number());
        let mut command = vec![
            program("etcd")?,
            format!("--name=n{index}"),
            format!("--data-dir={}", node.keeper.path("data")?),
            format!("--listen-client-urls={client_url}"),
            format!("--advertise-client-urls={client_url}"),
            format!("--listen-peer-urls={}", peer_url(node)),
            format!("--initial-advertise-peer-urls={}", peer_url(node)),
            format!("--listen-metrics-urls=http://127.0.0.1:{}", node.metrics.number()),
            format!("--initial-cluster={}", members.join(",")),
            "--initial-cluster-state=new".to_owned(),
        ];
        command.extend(FLAGS.iter().map(|&flag| flag.to_owned()));
        if self.certificates.is_some() {
            for (flag, file) in [("cert-file", "server.pem"), ("key-file", "server.key")] {
                command.push(format!("--{flag}={}", node.keeper.path(file)?));
            }
        }
        if self.options.client_certificates {
            command.push("--client-cert-auth=true".to_owned());
            command.push(format!("--trusted-ca-file={}", node.keeper.path("ca.pem")?));
        }
        command.extend(self.options.settings.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(command)
    }

    fn demand_password(&self) -> Result<()> {
        let Some(password) = &self.options.password else { return Ok(()) };
        self.control(&["user", "add", &format!("root:{password}")])?;
        self.control(&["user", "grant-role", "root", "root"])?;
        self.control(&["auth", "enable"])
    }

    /// Runs etcd's own client.
    fn control(&self, args: &[&str]) -> Result<()> {
        let etcdctl = program("etcdctl")?;
        let (mut scheme, mut files) = ("http", Vec::new());
        if let Some(certificates) = &self.certificates {
            scheme = "https";
            let (certificate, key) = certificates.client();
            for (flag, file) in [("cacert", certificates.ca()), ("cert", certificate), ("key", key)] {
                files.push(format!("--{flag}={}", text(&file)?));
            }
        }
        let endpoint = format!("--endpoints={scheme}://{}", self.endpoints()[0]);
        let mut command = vec!["env", "ETCDCTL_API=3", &etcdctl, &endpoint];
        command.extend(files.iter().map(String::as_str));
        command.extend(args);
        run(&Account::own(), &command).map(drop)
    }
}

impl Node {
    fn new() -> Result<Self> {
        let keeper = Keeper::new("etcd", Account::own())?;
        Ok(Self { keeper, client: Port::reserve()?, peer: Port::reserve()?, metrics: Port::reserve()? })
    }

    /// Whether it can read through the leader.
    fn is_healthy(&self) -> bool {
        get(self.metrics.number(), "/health").is_some_and(|page| page.contains("\"true\""))
    }

    fn metric(&self, name: &str) -> Option<u64> {
        let page = get(self.metrics.number(), "/metrics")?;
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }
}
