//! Fresh databases in PostgreSQL, and a candidate that says exactly what Crown says.

use std::{thread, time::Duration};

use tenure_store::Env;
use tokio_postgres::{Client, NoTls};

/// A database that is dropped with this value.
pub(crate) struct Database {
    server: String,
    pub(crate) name: String,
}

impl Database {
    /// A fresh one on the shared server.
    pub(crate) async fn create() -> Self {
        Self::create_on(&tenure_testbed::postgres()).await
    }

    pub(crate) async fn create_on(server: &str) -> Self {
        let name = format!("oracles_{:016x}", Env::system().random_u64());
        connect(server).await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        Self { server: server.to_owned(), name }
    }

    /// Its URL, for a superuser.
    pub(crate) fn url(&self) -> String {
        let (server, _) = self.server.rsplit_once('/').unwrap();
        format!("{server}/{}", self.name)
    }

    /// Its URL, for this user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        let url = self.url();
        let (_, rest) = url.split_once('@').unwrap();
        format!("postgres://{user}@{rest}")
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.url()).await
    }

    pub(crate) async fn run(&self, statements: &str) {
        self.connect().await.batch_execute(statements).await.unwrap();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // On a thread of its own: this one may be running tasks.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let statement = format!("DROP DATABASE {name} WITH (FORCE)");
                connect(&server).await.batch_execute(&statement).await.unwrap();
            });
        });
        let _ = dropping.join();
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A node of Crown's.
pub(crate) struct Crown {
    client: Client,
    pub(crate) lock: String,
    pub(crate) holder: String,
    pub(crate) seconds: f64,
}

impl Crown {
    pub(crate) async fn start(database: &Database, lock: &str, holder: &str, duration: Duration) -> Self {
        let client = database.connect().await;
        let (lock, holder) = (lock.to_owned(), holder.to_owned());
        Self { client, lock, holder, seconds: duration.as_secs_f64() }
    }

    /// What Crown does first.
    pub(crate) async fn init(&self) {
        let ddl = "CREATE TABLE IF NOT EXISTS crown_lease_v1 (lock_name text PRIMARY KEY, holder text NOT NULL, \
            expires_at timestamptz NOT NULL)";
        self.client.batch_execute(ddl).await.unwrap();
    }

    /// Crown's claim, which is its refresh too.
    pub(crate) async fn claim(&self) -> bool {
        let statement = "INSERT INTO crown_lease_v1 (lock_name, holder, expires_at)
            VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
            ON CONFLICT (lock_name) DO UPDATE
            SET holder = EXCLUDED.holder, expires_at = EXCLUDED.expires_at
            WHERE crown_lease_v1.expires_at < clock_timestamp() OR crown_lease_v1.holder = EXCLUDED.holder
            RETURNING holder";
        let rows = self.client.query(statement, &[&self.lock, &self.holder, &self.seconds]).await.unwrap();
        rows.first().is_some_and(|row| row.get::<_, &str>(0) == self.holder)
    }

    pub(crate) async fn abdicate(&self) {
        let statement = "DELETE FROM crown_lease_v1 WHERE lock_name = $1 AND holder = $2";
        self.client.execute(statement, &[&self.lock, &self.holder]).await.unwrap();
    }
}
