//! [`Galera`]: a private cluster of three MariaDB servers.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::{
    Options,
    keeper::{Keeper, Started},
    mariadb::{base_command, first_statements, greets, new_keeper},
    port::Port,
    programs::{Account, library, program, run},
};

/// As few as can lose one.
const NODES: usize = 3;

/// How often a cluster is started, and a node of it that comes back: somebody may have taken a port that was just free, and on a busy machine a node
/// may not get in step with the others in time. Whoever operates it would start it again.
const TRIES: usize = 4;

const PROVIDER: &str = "libgalera_smm.so";

/// What a node needs to take part, as MariaDB's documentation demands it.
const NEEDED: &[&str] = &[
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--wsrep-on=ON",
    "--wsrep-cluster-name=tenure",
    "--wsrep-sst-method=rsync",
];

/// What a node says in its log, when asked, about how far it got before it was killed.
const RECOVERED: &str = "Recovered position: ";

/// A private Galera cluster of three nodes, gone with this value. Starting it takes about ten seconds: each node gets a copy of the first
/// one's data.
#[derive(Debug)]
pub struct Galera {
    nodes: Vec<Node>,
    options: Options,
}

#[derive(Debug)]
struct Node {
    keeper: Keeper,
    client: Port,
    group: Port,
    /// Where it receives what it has missed, and where it receives everything.
    missed: Port,
    everything: Port,
}

impl Galera {
    /// Starts a cluster.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of a log.
    pub fn start() -> Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Starts a cluster with options: settings and a password, no others.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of a log.
    pub fn start_with(options: &Options) -> Result<Self> {
        options.check()?;
        ensure!(!options.tls && !options.faketime, "a Galera cluster takes neither `tls` nor `faketime`");
        tried("a Galera cluster", || Self::try_start(options)?.context("it found a port in use"))
    }

    /// Where to connect to each node, for a user with all rights: `mysql://root@127.0.0.1:PORT/test`.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let login = self.options.login("tenure", "root@");
        self.ports().iter().map(|port| format!("mysql://{login}127.0.0.1:{port}/test")).collect()
    }

    /// The port of each node.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(|node| node.client.number()).collect()
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

    /// Starts a node again after a [`kill`](Self::kill), with the same ports and data. Returns when it is in step with the others; one that does
    /// not get there is started again.
    ///
    /// # Errors
    /// If it can't be started, as when no other node runs; the error shows the end of its log.
    ///
    /// # Panics
    /// If there is no node with that index.
    pub fn restart(&self, index: usize) -> Result<()> {
        let others = self.nodes.iter().enumerate().filter(|&(other, _)| other != index);
        ensure!(
            others.into_iter().any(|(_, node)| node.keeper.server().is_some()),
            "no other node runs: node {index} would wait for them in vain"
        );
        tried(&format!("node {index}"), || self.try_restart(index))
    }

    fn try_restart(&self, index: usize) -> Result<()> {
        self.kill(index)?;
        let node = &self.nodes[index];
        let mut command = self.command(index, &self.members())?;
        if let Some(position) = node.recovered_position(&command)? {
            // It then gets what it has missed, not everything.
            command.push(format!("--wsrep-start-position={position}"));
        }
        node.keeper.restart(&command, |_| self.is_synced(index))
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

    /// `None` if a port was taken.
    fn try_start(options: &Options) -> Result<Option<Self>> {
        let nodes = (0..NODES).map(|_| Node::new()).collect::<Result<Vec<_>>>()?;
        let cluster = Self { nodes, options: options.clone() };
        for (index, node) in cluster.nodes.iter().enumerate() {
            // The first one founds the cluster; the others, one after the other, get its data.
            let members = if index == 0 { String::new() } else { cluster.members() };
            let mut command = cluster.command(index, &members)?;
            if index == 0 {
                node.keeper.write("init.sql", &first_statements(options))?;
                command.push(format!("--init-file={}", node.keeper.path("init.sql")?));
            }
            if node.keeper.start(&command, |_| cluster.is_synced(index))? == Started::Busy {
                return Ok(None);
            }
        }
        Ok(Some(cluster))
    }

    /// The address of each node, for the nodes.
    fn members(&self) -> String {
        let members = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.group.number()));
        members.collect::<Vec<_>>().join(",")
    }

    fn command(&self, index: usize, members: &str) -> Result<Vec<String>> {
        let node = &self.nodes[index];
        let mut command = base_command(&node.keeper, node.client.number())?;
        command.extend(NEEDED.iter().map(|&option| option.to_owned()));
        let (group, missed) = (node.group.number(), node.missed.number());
        command.push(format!("--wsrep-provider={}", library(PROVIDER)?));
        command.push(format!("--wsrep-cluster-address=gcomm://{members}"));
        command.push(format!("--wsrep-node-name=n{index}"));
        command.push(format!("--wsrep-node-address=127.0.0.1:{group}"));
        command.push(format!(
            "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{group};\
             ist.recv_addr=127.0.0.1:{missed};base_port={group}"
        ));
        command.push(format!("--wsrep-sst-receive-address=127.0.0.1:{}", node.everything.number()));
        command.extend(self.options.settings.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(command)
    }

    /// Whether a node has all that the others have, and takes statements.
    fn is_synced(&self, index: usize) -> bool {
        let port = self.nodes[index].client.number();
        if !greets(port) {
            return false;
        }
        let Ok(client) = program("mariadb") else { return false };
        let port = format!("--port={port}");
        let ask = "show status like 'wsrep_local_state_comment'";
        let command =
            [&client, "--no-defaults", "--host=127.0.0.1", &port, "--user=root", "--batch", "-e", ask];
        run(&Account::own(), &command).is_ok_and(|answer| answer.contains("Synced"))
    }
}

impl Node {
    fn new() -> Result<Self> {
        Ok(Self {
            keeper: new_keeper("galera")?,
            client: Port::reserve()?,
            group: Port::reserve()?,
            missed: Port::reserve()?,
            everything: Port::reserve()?,
        })
    }

    /// How far a killed node had got, if it knows.
    fn recovered_position(&self, command: &[String]) -> Result<Option<String>> {
        let log = self.keeper.path("recovery.err")?;
        let log_option = format!("--log-error={log}");
        let mut words: Vec<&str> = command.iter().map(String::as_str).collect();
        words.extend(["--wsrep-recover", &log_option]);
        run(self.keeper.account(), &words).context("could not ask a node how far it had got")?;
        let said = std::fs::read_to_string(&log).with_context(|| format!("could not read {log}"))?;
        std::fs::remove_file(&log).with_context(|| format!("could not remove {log}"))?;
        Ok(position(&said).map(str::to_owned))
    }
}

/// Starts something, a few times if need be. What was in the way is printed, so that it is known when nothing comes of it but lost time.
#[expect(
    clippy::print_stderr,
    reason = "for whoever reads what a test wrote; it has no other way out of here"
)]
fn tried<T>(what: &str, start: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match start() {
            Ok(started) => return Ok(started),
            Err(error) => eprintln!("{what} is started again: {error:#}"),
        }
    }
    start()
}

/// The position in what `mariadbd --wsrep-recover` has logged, unless it knows none.
fn position(log: &str) -> Option<&str> {
    let position = log.rsplit_once(RECOVERED)?.1.split_whitespace().next()?;
    position.rsplit_once(':').filter(|(_, number)| *number != "-1").map(|_| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recovered_position_is_found() {
        let log = "x\n2026 0 [Note] WSREP: Recovered position: 4e60b0b7-e170:27\n2026 0 [Note] Shutdown\n";
        assert_eq!(position(log), Some("4e60b0b7-e170:27"));
        assert_eq!(position("WSREP: Recovered position: 00000000-0000:-1\n"), None);
        assert_eq!(position("nothing"), None);
    }
}
