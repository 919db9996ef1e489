//! Databases of a test's own on a server that others use too.

#![allow(dead_code, reason = "each test uses its part of this")]

use std::{sync::Arc, thread};

use mysql_async::{Conn, Opts, prelude::Queryable as _};
use tenure_mysql::MysqlStore;
use tenure_store::{Env, Store, testkit::Handles};

/// A database that is dropped with this value.
#[derive(Debug)]
pub(crate) struct Database {
    /// The servers, as `mysql://user@host:port`.
    servers: Vec<String>,
    name: String,
}

impl Database {
    /// A fresh database on a server, or on all nodes of a cluster, given by the URLs of any database there.
    pub(crate) async fn create(urls: &[String]) -> Self {
        let servers: Vec<String> = urls.iter().map(|url| server(url).to_owned()).collect();
        let name = format!("tenure_test_{:016x}", Env::system().random_u64());
        execute(&servers[0], &format!("CREATE DATABASE {name}")).await;
        for other in &servers[1..] {
            catch_up(other).await;
        }
        Self { servers, name }
    }

    /// Its URL at the `index`th server, counted around.
    pub(crate) fn url(&self, index: usize) -> String {
        format!("{}/{}", self.servers[index % self.servers.len()], self.name)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Handles to a store in it, spread over the servers.
    pub(crate) async fn handles(self, count: usize) -> Handles {
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for index in 0..count {
            stores.push(Arc::new(MysqlStore::open(&self.url(index)).await.expect("the store opens")));
        }
        Handles::new(stores, self)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.servers[0].clone(), self.name.clone());
        let drop = move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(execute(&server, &format!("DROP DATABASE {name}")));
        };
        // A thread of its own, since this may be one that must not block on a runtime.
        let _ = thread::spawn(drop).join();
    }
}

/// A connection for what the store itself would not do.
pub(crate) async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).expect("a URL")).await.expect("the server answers")
}

/// One statement on a server.
pub(crate) async fn execute(url: &str, statement: &str) {
    let mut conn = connect(url).await;
    conn.query_drop(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    conn.disconnect().await.expect("the connection closes");
}

/// Returns when a node of a cluster has done all that others had acknowledged: until then, it may not know of a database that was just made.
async fn catch_up(url: &str) {
    let mut conn = connect(url).await;
    for statement in ["SET SESSION wsrep_sync_wait = 1", "SELECT COUNT(*) FROM information_schema.schemata"] {
        conn.query_drop(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    conn.disconnect().await.expect("the connection closes");
}

/// The server of a URL, without the database.
pub(crate) fn server(url: &str) -> &str {
    url.rsplit_once('/').map_or(url, |(server, _)| server)
}
