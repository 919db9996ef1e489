//! [`Database`]: the store of a case, and what can be done to it.

use std::path::Path;

use tenure_testbed::{Etcd, MariaDb, Options, Postgres, Proxy, ProxyFaults};

use crate::support::place::Place;

/// How likely a connection is cut, for each chunk of bytes: every process loses one a second or so, in the middle of anything.
const FAULTS: ProxyFaults = ProxyFaults { request: 0.005, answer: 0.01 };

/// What happens to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// It is killed and started again, so many times.
    Restarts(usize),
    /// A proxy in front of it loses requests and answers.
    Proxy,
}

/// The store of one case.
#[derive(Debug)]
pub(crate) struct Database {
    server: Server,
    proxy: Option<Proxy>,
    url: String,
}

#[derive(Debug)]
enum Server {
    Shared,
    Postgres(Postgres),
    MariaDb(MariaDb),
    Etcd(Etcd),
}

impl Database {
    /// The store that cases share, or one of its own if it will be in trouble. One that is a file is in this folder.
    pub(crate) fn start(place: Place, trouble: Trouble, folder: &Path) -> Self {
        if trouble == Trouble::None {
            return Self { server: Server::Shared, proxy: None, url: place.url(folder) };
        }
        let (server, url, port) = match place {
            Place::Sqlite => panic!("there is no server of SQLite"),
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
        let proxy = (trouble == Trouble::Proxy).then(|| Proxy::start(port).unwrap());
        let url = match &proxy {
            Some(proxy) => url.replace(&format!(":{port}"), &format!(":{}", proxy.port())),
            None => url,
        };
        Self { server, proxy, url }
    }

    /// Where processes find it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Kills it, and starts it again.
    pub(crate) fn restart(&self) {
        match &self.server {
            Server::Shared => panic!("others use it as well"),
            Server::Postgres(server) => server.restart(),
            Server::MariaDb(server) => server.restart(),
            Server::Etcd(server) => server.restart(0),
        }
        .unwrap();
    }

    /// Whether requests and answers are lost, if there is a proxy.
    pub(crate) fn lose(&self, lose: bool) {
        if let Some(proxy) = &self.proxy {
            proxy.set_faults(if lose { FAULTS } else { ProxyFaults::default() });
        }
    }

    /// How many connections were cut.
    pub(crate) fn cuts(&self) -> u64 {
        self.proxy.as_ref().map_or(0, Proxy::cuts)
    }
}
