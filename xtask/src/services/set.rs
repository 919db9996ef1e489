//! [`Services`]: one server of each kind.

use std::thread;

use anyhow::{Result, anyhow};
use tenure_testbed::{Etcd, Galera, MariaDb, Options, PgBouncer, Postgres};

/// Members of the etcd cluster: as few as can lose one.
const ETCD_NODES: usize = 3;

/// The variable that names several servers, each with a URL of its own.
const GALERA: &str = "TENURE_TEST_GALERA";

/// One server of each kind, gone with this value or with this process.
#[derive(Debug)]
pub(crate) struct Services {
    postgres: Postgres,
    pgbouncer: PgBouncer,
    mariadb: MariaDb,
    etcd: Etcd,
    galera: Option<Galera>,
}

impl Services {
    /// Starts them, all at once.
    pub(crate) fn start(galera: bool) -> Result<Self> {
        thread::scope(|scope| {
            let postgres = scope.spawn(|| {
                let postgres = Postgres::start()?;
                let pgbouncer = PgBouncer::start(&postgres.url())?;
                anyhow::Ok((postgres, pgbouncer))
            });
            let mariadb = scope.spawn(MariaDb::start);
            let etcd = scope.spawn(|| Etcd::start(ETCD_NODES, &Options::default()));
            let galera = galera.then(|| scope.spawn(Galera::start));
            // All are waited for before any error is returned: what has started by then goes with its value.
            let (postgres, mariadb, etcd) = (joined(postgres), joined(mariadb), joined(etcd));
            let galera = galera.map(joined).transpose();
            let (postgres, pgbouncer) = postgres?;
            Ok(Self { postgres, pgbouncer, mariadb: mariadb?, etcd: etcd?, galera: galera? })
        })
    }

    /// The variables by which tests find them.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let mut variables = vec![
            ("TENURE_TEST_POSTGRES", self.postgres.url()),
            ("TENURE_TEST_PGBOUNCER", self.pgbouncer.url()),
            ("TENURE_TEST_MARIADB", self.mariadb.url()),
            ("TENURE_TEST_ETCD", self.etcd.url()),
        ];
        variables.extend(self.galera.as_ref().map(|galera| (GALERA, galera.urls().join(","))));
        variables.into_iter().map(|(name, url)| (name.to_owned(), url)).collect()
    }
}

/// The URLs in the value of a variable. A URL of etcd has commas of its own.
pub(crate) fn each_url<'a>(variable: &str, value: &'a str) -> impl Iterator<Item = &'a str> {
    let separator = if variable == GALERA { ',' } else { '\n' };
    value.split(separator)
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    thread.join().unwrap_or_else(|_| Err(anyhow!("starting a server panicked (see above)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_told_apart() {
        let urls = |variable, value| each_url(variable, value).count();
        assert_eq!(urls("TENURE_TEST_ETCD", "etcd://a:1,b:2,c:3"), 1);
        assert_eq!(urls("TENURE_TEST_GALERA", "mysql://root@a:1/test,mysql://root@b:2/test"), 2);
    }
}
