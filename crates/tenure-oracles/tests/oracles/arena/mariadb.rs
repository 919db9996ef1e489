//! Fresh databases in MariaDB, and a candidate that says exactly what SOFA's registry says.

use std::thread;

use mysql_async::{Conn, Opts, params, prelude::Queryable as _};
use tenure_store::Env;

/// A database that is dropped with this value.
pub(crate) struct Database {
    server: String,
    pub(crate) name: String,
}

impl Database {
    /// A fresh one on the shared server.
    pub(crate) async fn create() -> Self {
        Self::create_on(&tenure_testbed::mariadb()).await
    }

    pub(crate) async fn create_on(url: &str) -> Self {
        let server = url.rsplit_once('/').unwrap().0.to_owned();
        let name = format!("oracles_{:016x}", Env::system().random_u64());
        connect(&server).await.query_drop(format!("CREATE DATABASE {name}")).await.unwrap();
        Self { server, name }
    }

    /// Its URL, for a superuser.
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// Its URL, for this user.
    pub(crate) fn url_of(&self, user: &str) -> String {
        let url = self.url();
        let (_, rest) = url.split_once('@').unwrap();
        format!("mysql://{user}@{rest}")
    }

    pub(crate) async fn connect(&self) -> Conn {
        connect(&self.url()).await
    }

    pub(crate) async fn run(&self, statement: &str) {
        self.connect().await.query_drop(statement).await.unwrap();
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        // On a thread of its own: this one may be running tasks.
        let dropping = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                connect(&server).await.query_drop(format!("DROP DATABASE {name}")).await.unwrap();
            });
        });
        let _ = dropping.join();
    }
}

pub(crate) async fn connect(url: &str) -> Conn {
    Conn::new(Opts::from_url(url).unwrap()).await.unwrap()
}

/// A Meta node, in Java's words.
pub(crate) struct Meta {
    conn: Conn,
    pub(crate) center: String,
    pub(crate) lock: String,
    pub(crate) owner: String,
    pub(crate) duration: i64,
}

/// A row, as a Meta node reads it.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) owner: String,
    pub(crate) term: u64,
    pub(crate) term_duration: u64,
    pub(crate) duration: i64,
    pub(crate) modified_millis: i64,
    pub(crate) now_millis: i64,
}

impl Domain {
    pub(crate) fn expire(&self) -> bool {
        self.now_millis > self.modified_millis + self.duration
    }
}

impl Meta {
    pub(crate) async fn start(database: &Database, lock: &str, owner: &str, duration: i64) -> Self {
        let (lock, owner) = (lock.to_owned(), owner.to_owned());
        let mut conn = database.connect().await;
        // As a Java node in Shanghai would.
        conn.query_drop("SET time_zone = '+08:00'").await.unwrap();
        Self { conn, center: "dc".to_owned(), lock, owner, duration }
    }

    pub(crate) async fn query(&mut self) -> Option<Domain> {
        let statement = "SELECT owner, term, term_duration, duration, \
            CAST(UNIX_TIMESTAMP(gmt_modified) * 1000 AS SIGNED), CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED) \
            FROM distribute_lock WHERE data_center = ? AND lock_name = ?";
        let row: Option<(String, u64, u64, i64, i64, i64)> =
            self.conn.exec_first(statement, (&self.center, &self.lock)).await.unwrap();
        row.map(|(owner, term, term_duration, duration, modified_millis, now_millis)| Domain {
            owner,
            term,
            term_duration,
            duration,
            modified_millis,
            now_millis,
        })
    }

    async fn insert(&mut self) {
        let statement = "INSERT /*+ QUERY_TIMEOUT(2000000) */ INTO distribute_lock \
            (data_center, lock_name, owner, duration, gmt_create, gmt_modified, `term`, `term_duration`) \
            VALUES (:center, :lock, :owner, :duration, NOW(3), NOW(3), 1, 0) \
            ON DUPLICATE KEY UPDATE lock_name = :lock";
        let values = params! {
            "center" => &self.center, "lock" => &self.lock, "owner" => &self.owner, "duration" => self.duration,
        };
        self.perform(statement, values).await;
    }

    /// Executes a statement. One that the server gave up, to let another go on, did nothing: the next pass makes up for it.
    async fn perform(&mut self, statement: &str, values: mysql_async::Params) {
        const DEADLOCK: u16 = 1213;
        match self.conn.exec_drop(statement, values).await {
            Ok(()) => {}
            Err(mysql_async::Error::Server(error)) if error.code == DEADLOCK => {}
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn heartbeat(&mut self, row: &Domain) {
        let statement = "update /*+ QUERY_TIMEOUT(2000000) */ distribute_lock set owner = :owner, \
            gmt_modified = NOW(3), `term_duration` = (`term_duration` + 1) \
            where data_center = :center and lock_name = :lock and owner = :owner and term = :term \
            and `term_duration` = :renewals and timestampdiff(SECOND, gmt_modified, NOW()) < :duration/1000";
        let values = params! {
            "center" => &self.center, "lock" => &self.lock, "owner" => &self.owner, "term" => row.term,
            "renewals" => row.term_duration, "duration" => row.duration,
        };
        self.perform(statement, values).await;
    }

    pub(crate) async fn compete(&mut self, row: &Domain) {
        let statement = "update /*+ QUERY_TIMEOUT(2000000) */ distribute_lock set owner = :new_owner, \
            gmt_modified = NOW(3), term = (term + 1) , `term_duration` = 0 \
            where data_center = :center and lock_name = :lock and owner = :owner and term = :term \
            and `term_duration` = :renewals and timestampdiff(SECOND, gmt_modified, NOW()) > :duration/1000";
        let values = params! {
            "center" => &self.center, "lock" => &self.lock, "new_owner" => &self.owner, "owner" => &row.owner,
            "term" => row.term, "renewals" => row.term_duration, "duration" => row.duration,
        };
        self.perform(statement, values).await;
    }

    /// One pass of the election; the row, if it is ours afterwards.
    pub(crate) async fn elect(&mut self) -> Option<Domain> {
        match self.query().await {
            None => self.insert().await,
            Some(row) if row.owner == self.owner && !row.expire() => self.heartbeat(&row).await,
            Some(row) if row.expire() => self.compete(&row).await,
            Some(_) => return None,
        }
        self.query().await.filter(|row| row.owner == self.owner && !row.expire())
    }
}
