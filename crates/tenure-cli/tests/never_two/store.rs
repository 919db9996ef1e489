//! [`Database`]: the store of a case, and what can be done to it.

use std::{fmt, path::Path};

use nix::sys::signal::Signal;
use tenure_testbed::{Etcd, MariaDb, Options, Postgres, Proxy};

use crate::process;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Sqlite,
    Postgres,
    MariaDb,
    Etcd,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::MariaDb, Self::Etcd];
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::Etcd => "etcd",
        })
    }
}

/// The store of one case.
#[derive(Debug)]
pub(crate) struct Database {
    server: Server,
    url: String,
    port: u16,
    /// One for each seat of a node, if there is a server.
    proxies: Vec<Proxy>,
}

#[derive(Debug)]
enum Server {
    None,
    Postgres(Postgres),
    MariaDb(MariaDb),
    Etcd(Etcd),
}

impl Database {
    /// Starts one for so many nodes. One that is a file is in this folder.
    pub(crate) fn start(place: Place, nodes: usize, folder: &Path) -> Self {
        let (server, url, port) = match place {
            Place::Sqlite => {
                let url = format!("sqlite:{}", folder.join("store.db").display());
                return Self { server: Server::None, url, port: 0, proxies: Vec::new() };
            }
            Place::Postgres => {
                let server = Postgres::start().unwrap();
                let (url, port) = (server.url(), server.port());
                (Server::Postgres(server), url, port)
            }
            Place::MariaDb => {
                let server = MariaDb::start().unwrap();
                let (url, port) = (server.url(), server.port());
                (Server::MariaDb(server), url, port)
            }
            Place::Etcd => {
                let server = Etcd::start(1, &Options::default()).unwrap();
                let (url, port) = (server.url(), server.ports()[0]);
                (Server::Etcd(server), url, port)
            }
        };
        let proxies = (0..nodes).map(|_| Proxy::start(port).unwrap()).collect();
        Self { server, url, port, proxies }
    }

    /// Where the node of this seat finds it.
    pub(crate) fn url(&self, seat: usize) -> String {
        match self.proxies.get(seat) {
            Some(proxy) => self.url.replace(&format!(":{}", self.port), &format!(":{}", proxy.port())),
            None => self.url.clone(),
        }
    }

    /// Cuts the node of this seat off, or lets it back.
    pub(crate) fn cut(&self, seat: usize, cut: bool) {
        self.proxies[seat].refuse(cut).unwrap();
        if cut {
            self.proxies[seat].cut();
        }
    }

    pub(crate) fn kill(&self) {
        match &self.server {
            Server::None => panic!("a file can't be killed"),
            Server::Postgres(server) => server.kill(),
            Server::MariaDb(server) => server.kill(),
            Server::Etcd(server) => server.kill(0),
        }
        .unwrap();
    }

    /// Starts it again after a kill.
    pub(crate) fn restart(&self) {
        match &self.server {
            Server::None => panic!("a file can't be started"),
            Server::Postgres(server) => server.restart(),
            Server::MariaDb(server) => server.restart(),
            Server::Etcd(server) => server.restart(0),
        }
        .unwrap();
    }

    /// Stops all its processes where they are. They go on when what is returned is dropped.
    pub(crate) fn freeze(&self) -> Frozen {
        let process = match &self.server {
            Server::None => None,
            Server::Postgres(server) => server.process(),
            Server::MariaDb(server) => server.process(),
            Server::Etcd(server) => server.process(0),
        };
        let all = process::tree(i32::try_from(process.expect("a server that runs")).unwrap());
        // From the first, which starts the others.
        all.iter().for_each(|id| process::send(*id, Signal::SIGSTOP));
        Frozen(all)
    }
}

/// Processes that were stopped. They go on when it is dropped.
#[derive(Debug)]
pub(crate) struct Frozen(Vec<i32>);

impl Drop for Frozen {
    fn drop(&mut self) {
        self.0.iter().for_each(|id| process::send(*id, Signal::SIGCONT));
    }
}
