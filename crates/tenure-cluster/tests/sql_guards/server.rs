//! [`Server`]: a store with a guard, and a table of a user's own beside it; [`Client`]: a connection of that user.

use std::{sync::Arc, thread, time::Duration};

use mysql_async::{Conn, Opts, prelude::Queryable as _};
use tenure_cluster::{Cluster, Settings, sql};
use tenure_mysql::MysqlStore;
use tenure_postgres::PostgresStore;
use tenure_store::{Env, Store};
use tokio_postgres::NoTls;

/// The most that anything here may take: far more than it does, on a busy machine too.
const SOON: Duration = Duration::from_secs(30);

/// Between two looks at something that is waited for.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    Mysql,
}

/// A schema or a database of a test's own, gone with this value.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) kind: Kind,
    /// The nodes, one or several.
    urls: Vec<String>,
    /// The schema or the database.
    pub(crate) name: String,
}

impl Server {
    pub(crate) async fn postgres() -> Self {
        Self::create(Kind::Postgres, vec![tenure_testbed::postgres()]).await
    }

    pub(crate) async fn mariadb() -> Self {
        Self::create(Kind::Mysql, vec![tenure_testbed::mariadb()]).await
    }

    pub(crate) async fn galera() -> Self {
        Self::create(Kind::Mysql, tenure_testbed::galera()).await
    }

    async fn create(kind: Kind, mut urls: Vec<String>) -> Self {
        let name = format!("guard_{:016x}", Env::system().random_u64());
        if kind == Kind::Mysql {
            Client::connect(kind, &urls[0]).await.run(&format!("CREATE DATABASE {name}")).await;
            for url in &mut urls {
                *url = format!("{}/{name}", url.rsplit_once('/').unwrap().0);
            }
        }
        let server = Self { kind, urls, name };
        server.store(0).await;
        let mut client = server.client(0).await;
        client.run(&server.guard()).await;
        client.run("CREATE TABLE work (line TEXT)").await;
        server
    }

    /// What makes the guard.
    pub(crate) fn guard(&self) -> String {
        let guard = match self.kind {
            Kind::Postgres => sql::postgres_guard(&self.name),
            Kind::Mysql => sql::mysql_guard("tenure_"),
        };
        guard.unwrap()
    }

    pub(crate) fn url(&self, node: usize) -> &str {
        &self.urls[node]
    }

    pub(crate) async fn store(&self, node: usize) -> Arc<dyn Store> {
        let url = self.url(node);
        match self.kind {
            Kind::Postgres => {
                let url = format!("{url}?schema={}", self.name);
                Arc::new(PostgresStore::open(&url).await.unwrap())
            }
            Kind::Mysql => Arc::new(MysqlStore::open(url).await.unwrap()),
        }
    }

    pub(crate) async fn client(&self, node: usize) -> Client {
        let mut client = Client::connect(self.kind, self.url(node)).await;
        if self.kind == Kind::Postgres {
            client.run(&format!("SET search_path = {}", self.name)).await;
        }
        if self.urls.len() > 1 {
            // What was decided through another node is known to this one when a transaction begins.
            client.run("SET SESSION wsrep_sync_wait = 1").await;
        }
        client
    }

    /// Joins the cluster `c` through a node of the server.
    pub(crate) async fn join(&self, node: usize, name: &str) -> Cluster {
        self.join_as(node, settings(name)).await
    }

    pub(crate) async fn join_as(&self, node: usize, settings: Settings) -> Cluster {
        Cluster::join(self.store(node).await, settings).await.unwrap()
    }

    /// Ends the session of a node of the cluster, and nothing else, as somebody who takes over its name.
    pub(crate) async fn displace(&self, node: usize, name: &str) -> Cluster {
        let mut settings = settings(name);
        settings.take_over = true;
        self.join_as(node, settings).await
    }

    /// Returns when a commit of a store waits for a lock.
    pub(crate) async fn until_a_commit_waits(&self) {
        let mut client = self.client(0).await;
        let query = match self.kind {
            Kind::Postgres => format!(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%{}.apply(%'",
                self.name
            ),
            // InnoDB's own list of those who wait is not renewed while several look at it often.
            Kind::Mysql => format!(
                "SELECT 1 FROM information_schema.PROCESSLIST WHERE DB = '{}' AND COMMAND <> 'Sleep' AND TIME >= 1",
                self.name
            ),
        };
        soon("a commit to wait for a lock", async {
            while client.count(&query).await == 0 {
                pause(PAUSE).await;
            }
        })
        .await;
    }

    /// How many lines of the user's table are committed.
    pub(crate) async fn lines(&self) -> usize {
        self.client(0).await.count("SELECT line FROM work").await
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let (kind, url) = (self.kind, self.url(0).to_owned());
        let statement = match kind {
            Kind::Postgres => format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name),
            Kind::Mysql => format!("DROP DATABASE IF EXISTS {}", self.name),
        };
        // On a thread of its own: this one may be running tasks.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { Client::connect(kind, &url).await.run(&statement).await });
        });
        if !thread::panicking() {
            dropping.join().expect("what the test made is dropped");
        }
    }
}

/// What a server says when it refuses.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) state: String,
    pub(crate) message: String,
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        let state = error.code().map_or("lost", |code| code.code()).to_owned();
        Self {
            state,
            message: error.as_db_error().map_or(error.to_string(), |error| error.message().to_owned()),
        }
    }
}

impl From<mysql_async::Error> for Refusal {
    fn from(error: mysql_async::Error) -> Self {
        match error {
            mysql_async::Error::Server(error) => Self { state: error.state, message: error.message },
            other => Self { state: "lost".to_owned(), message: other.to_string() },
        }
    }
}

/// A connection to either server.
#[derive(Debug)]
pub(crate) enum Client {
    Postgres(tokio_postgres::Client),
    Mysql(Box<Conn>),
}

impl Client {
    pub(crate) async fn connect(kind: Kind, url: &str) -> Self {
        match kind {
            Kind::Postgres => {
                let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
                tokio::spawn(connection);
                Self::Postgres(client)
            }
            Kind::Mysql => Self::Mysql(Box::new(Conn::new(Opts::from_url(url).unwrap()).await.unwrap())),
        }
    }

    /// Runs statements that may fail.
    pub(crate) async fn try_run(&mut self, statements: &str) -> Result<(), Refusal> {
        match self {
            Self::Postgres(client) => Ok(client.batch_execute(statements).await?),
            Self::Mysql(conn) => Ok(conn.query_drop(statements).await?),
        }
    }

    pub(crate) async fn run(&mut self, statements: &str) {
        self.try_run(statements).await.unwrap_or_else(|error| panic!("{statements}: {error:?}"));
    }

    /// Begins a transaction, at the server's own isolation level or another one.
    pub(crate) async fn begin(&mut self, level: Option<&str>) {
        let level = level.map_or(String::new(), |level| format!("ISOLATION LEVEL {level}"));
        match self {
            Self::Postgres(_) => self.run(&format!("BEGIN {level}")).await,
            Self::Mysql(_) => {
                if !level.is_empty() {
                    self.run(&format!("SET TRANSACTION {level}")).await;
                }
                self.run("START TRANSACTION").await;
            }
        }
    }

    /// Calls the guard.
    pub(crate) async fn guard(&mut self, cluster: &str, election: &str, term: u64) -> Result<(), Refusal> {
        self.guard_with(Some(cluster), Some(election), Some(i64::try_from(term).unwrap())).await
    }

    pub(crate) async fn guard_with(
        &mut self,
        cluster: Option<&str>,
        election: Option<&str>,
        term: Option<i64>,
    ) -> Result<(), Refusal> {
        match self {
            Self::Postgres(client) => {
                client.execute("SELECT tenure_guard($1, $2, $3)", &[&cluster, &election, &term]).await?;
                Ok(())
            }
            Self::Mysql(conn) => {
                Ok(conn.exec_drop("CALL tenure_guard(?, ?, ?)", (cluster, election, term)).await?)
            }
        }
    }

    /// Writes a line to the user's table.
    pub(crate) async fn write(&mut self) -> Result<(), Refusal> {
        self.try_run("INSERT INTO work VALUES ('x')").await
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Refusal> {
        self.try_run("COMMIT").await
    }

    pub(crate) async fn rollback(&mut self) {
        self.run("ROLLBACK").await;
    }

    /// How many rows a query finds.
    pub(crate) async fn count(&mut self, query: &str) -> usize {
        match self {
            Self::Postgres(client) => client.query(query, &[]).await.unwrap().len(),
            Self::Mysql(conn) => conn.query::<mysql_async::Row, _>(query).await.unwrap().len(),
        }
    }

    /// A guarded transaction with one line, as a user would write it.
    pub(crate) async fn work(&mut self, election: &str, term: u64) -> Result<(), Refusal> {
        self.begin(None).await;
        let done = match self.write().await {
            Ok(()) => self.guard("c", election, term).await,
            refused => refused,
        };
        match done {
            Ok(()) => self.commit().await,
            Err(refusal) => {
                self.rollback().await;
                Err(refusal)
            }
        }
    }
}

/// Settings of a node of the cluster `c`. Nobody but those who are told to ends its session.
pub(crate) fn settings(name: &str) -> Settings {
    let mut settings = Settings::new("c", name).unwrap().with_ttl(Duration::from_secs(60));
    settings.proof_of_death = false;
    settings
}

pub(crate) async fn pause(time: Duration) {
    Env::system().sleep(time).await;
}

/// What `future` gives; it must not take long.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    Env::system().timeout(SOON, future).await.unwrap_or_else(|_| panic!("{what} took too long"))
}
