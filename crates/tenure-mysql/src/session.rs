//! [`Session`]: a connection on which every setting that matters has a known value, whatever the server's own are.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mysql_async::{Conn, OptsBuilder, SslOpts, prelude::Queryable as _};
use parking_lot::Mutex;
use tenure_store::{Env, Host, Moment, Password, Reason, StoreError};

use crate::{
    Durability, Settings, Tls,
    error::{lacks_tls, store_error},
    settings::PORT,
    slots::{Locker, PLACES},
    tls,
};

/// How many desks there are. The procedure for commits counts on it.
pub(crate) const DESKS: u32 = 256;

/// A connection that was used more recently is taken to be alive.
const TRUSTED: Duration = Duration::from_secs(1);

/// How long a good-bye may take. Nothing depends on it.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// How long the kernel lets a silent connection be before it asks whether the other side is there.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// How long the server keeps a connection that says nothing, in seconds. Those that it closed are found by a ping before they are used.
const WAIT_TIMEOUT_SECONDS: usize = 28_800;

/// The largest packet that the driver makes or takes: that of the protocol. What we send is bounded by the limits.
const PACKET_BYTES_MAX: usize = 1 << 30;

/// The smallest `max_allowed_packet` that we work with: a commit and a page of the portable limits, and what is packed around them.
pub(crate) const PACKET_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// What every session sets, so that nothing depends on the server's own settings.
const COMMON: &str = "SET SESSION \
    sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', \
    time_zone = '+00:00', autocommit = 1, completion_type = 0, unique_checks = 1, foreign_key_checks = 1, \
    sql_safe_updates = 0, sql_auto_is_null = 0, sql_select_limit = 18446744073709551615, max_sort_length = 2048, wait_timeout = 28800";

/// What the server is asked for. Not every server has all of them.
const ASKED: &str = "SHOW VARIABLES WHERE Variable_name IN ('version', 'max_allowed_packet', 'innodb_flush_log_at_trx_commit', \
    'log_bin', 'sync_binlog', 'binlog_format', 'read_only', 'innodb_read_only', 'wsrep_on', 'auto_increment_increment', \
    'auto_increment_offset')";

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Commits and tables: each statement sees what is committed by then.
    Write,
    /// Reads: all statements of a transaction see one instant.
    Read,
    /// Looking for changes, where an old answer does no harm.
    Poll,
}

/// A connection, and what it knows of its server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) conn: Conn,
    /// Its name in the notes of its commits.
    pub(crate) id: u64,
    /// The number that goes into the versions of its commits, from the first one on.
    pub(crate) number: Option<u16>,
    /// How many notes it has left, one for each commit that changed something.
    pub(crate) notes: u64,
    pub(crate) locker: Locker,
    /// Its desk. It shares it with others only if there are many.
    pub(crate) desk: u32,
    /// The server's `max_allowed_packet`.
    pub(crate) packet_bytes: u64,
    /// When it was last seen alive.
    pub(crate) seen: Moment,
    /// Keeps its id among those of living sessions.
    _alive: Alive,
}

/// Makes sessions.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    pub(crate) settings: Arc<Settings>,
    pub(crate) env: Env,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    ssl: Option<SslOpts>,
    /// Whether a server without TLS was met where that is allowed: it need not be asked at each connection.
    plain: AtomicBool,
    /// The smallest `max_allowed_packet` that will do for the limits of this store.
    packet_bytes: AtomicU64,
    /// The host that answered last: the next session tries it first, so that all are at one node of a cluster.
    host: AtomicUsize,
    sessions: Mutex<HashSet<u64>>,
}

#[derive(Debug)]
struct Alive {
    id: u64,
    shared: Arc<Shared>,
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.shared.sessions.lock().remove(&self.id);
    }
}

impl Connector {
    pub(crate) fn new(settings: Arc<Settings>, env: Env) -> Result<Self, StoreError> {
        let ssl = tls::options(&settings)?;
        let shared = Shared {
            packet_bytes: AtomicU64::new(PACKET_BYTES_MIN),
            ssl,
            plain: AtomicBool::new(false),
            host: AtomicUsize::new(0),
            sessions: Mutex::default(),
        };
        Ok(Self { settings, env, shared: Arc::new(shared) })
    }

    /// Demands of all later servers that they take packets of this size.
    pub(crate) fn demand(&self, packet_bytes: u64) {
        self.shared.packet_bytes.store(packet_bytes, Ordering::Relaxed);
    }

    /// Whether a session of this store has this id and still waits for answers: whoever waits for one will wake the watches.
    pub(crate) fn is_own(&self, session: u64) -> bool {
        self.shared.sessions.lock().contains(&session)
    }

    /// A session with the first host that can be written to, from the one that answered last.
    pub(crate) async fn connect(&self, purpose: Purpose) -> Result<Session, StoreError> {
        let hosts = &self.settings.hosts;
        let first = self.shared.host.load(Ordering::Relaxed);
        let mut failure = None;
        for at in (0..hosts.len()).map(|step| (first + step) % hosts.len()) {
            match self.connect_to(&hosts[at], purpose).await {
                Ok(session) => {
                    self.shared.host.store(at, Ordering::Relaxed);
                    return Ok(session);
                }
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.expect("there is a host"))
    }

    async fn connect_to(&self, host: &Host, purpose: Purpose) -> Result<Session, StoreError> {
        let time = self.settings.connect_timeout;
        let connecting = async {
            let ssl = self.shared.ssl.clone().filter(|_| !self.shared.plain.load(Ordering::Relaxed));
            let conn = match self.dial(host, ssl).await {
                Err(error) if lacks_tls(&error) && self.settings.tls == Tls::Prefer => {
                    self.shared.plain.store(true, Ordering::Relaxed);
                    self.dial(host, None).await
                }
                other => other,
            };
            let mut conn = conn.map_err(|error| store_error(&format!("connect to {host}"), error))?;
            match self.prepare(&mut conn, purpose).await {
                Ok(facts) => Ok((conn, facts)),
                Err(error) => {
                    close(&self.env, conn).await;
                    Err(error)
                }
            }
        };
        let connected = self.env.timeout(time, connecting).await;
        let (conn, facts) = connected.unwrap_or_else(|elapsed| {
            let words = format!("connect to {host}: {elapsed}: check the address, or raise connect_timeout");
            Err(StoreError::unavailable(Reason::caused(words, elapsed)))
        })?;
        Ok(self.session(conn, &facts))
    }

    async fn dial(&self, host: &Host, ssl: Option<SslOpts>) -> mysql_async::Result<Conn> {
        let options = OptsBuilder::default()
            .ip_or_hostname(host.name.clone())
            .tcp_port(host.port.unwrap_or(PORT))
            .user(Some(self.settings.user.clone()))
            .pass(self.settings.password.as_ref().map(Password::reveal))
            .db_name(Some(self.settings.database.clone()))
            .ssl_opts(ssl)
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEP_ALIVE))
            .max_allowed_packet(Some(PACKET_BYTES_MAX))
            .wait_timeout(Some(WAIT_TIMEOUT_SECONDS));
        Conn::new(options).await
    }

    /// Gives the connection its settings, and refuses a server that can't keep the contract.
    async fn prepare(&self, conn: &mut Conn, purpose: Purpose) -> Result<Facts, StoreError> {
        let failed = |error| store_error("set up a connection", error);
        let asked: Vec<(String, String)> = conn.query(ASKED).await.map_err(failed)?;
        let facts = Facts(asked.into_iter().collect());
        facts.admit(&self.settings, self.shared.packet_bytes.load(Ordering::Relaxed))?;
        // Half of the time that the client waits: so the server's refusal, which is definite, comes first.
        let lock_wait = (self.settings.request_timeout / 2).as_secs().max(1);
        let level = if purpose == Purpose::Read { "REPEATABLE READ" } else { "READ COMMITTED" };
        let mut statements = vec![
            "SET NAMES utf8mb4".to_owned(),
            format!("{COMMON}, innodb_lock_wait_timeout = {lock_wait}, lock_wait_timeout = {lock_wait}"),
            format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}, READ WRITE"),
        ];
        if facts.in_cluster() {
            // What other nodes have acknowledged is waited for at the start of each transaction, and of each read outside of one.
            statements.push(format!("SET SESSION wsrep_sync_wait = {}", u8::from(purpose != Purpose::Poll)));
        }
        for statement in statements {
            conn.query_drop(statement).await.map_err(failed)?;
        }
        if facts.in_cluster() {
            let ready: Option<(String, String)> =
                conn.query_first("SHOW STATUS LIKE 'wsrep_ready'").await.map_err(failed)?;
            if ready.is_none_or(|(_, value)| value != "ON") {
                return Err(StoreError::unavailable(
                    "this node of the cluster is not part of a majority, or not in step yet: wait, or name other nodes too",
                ));
            }
        }
        Ok(facts)
    }

    fn session(&self, conn: Conn, facts: &Facts) -> Session {
        let id = self.env.random_u64();
        self.shared.sessions.lock().insert(id);
        let connection = conn.id();
        Session {
            locker: Locker { place: facts.share(connection, PLACES), cluster: facts.in_cluster() },
            desk: facts.share(connection, DESKS),
            packet_bytes: facts.number("max_allowed_packet").unwrap_or(0),
            seen: self.env.now(),
            _alive: Alive { id, shared: Arc::clone(&self.shared) },
            conn,
            id,
            number: None,
            notes: 0,
        }
    }

    /// This session if it is alive, else a new one.
    pub(crate) async fn ready(
        &self,
        session: Option<Session>,
        purpose: Purpose,
    ) -> Result<Session, StoreError> {
        if let Some(mut session) = session {
            if self.env.now() - session.seen < TRUSTED {
                return Ok(session);
            }
            if let Ok(Ok(())) = self.env.timeout(self.settings.connect_timeout, session.conn.ping()).await {
                session.seen = self.env.now();
                return Ok(session);
            }
            self.part(session).await;
        }
        self.connect(purpose).await
    }

    /// Closes a session of which nobody knows how it is.
    pub(crate) async fn part(&self, session: Session) {
        close(&self.env, session.conn).await;
    }
}

/// Closes a connection without reading what it may still say. (Dropping it would read all of that first, however long it takes.)
pub(crate) async fn close(env: &Env, conn: Conn) {
    let _ = env.timeout(CLOSE_TIME, conn.disconnect()).await;
}

/// The server's variables.
struct Facts(HashMap<String, String>);

impl Facts {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    fn is_on(&self, name: &str) -> bool {
        !matches!(self.text(name).to_ascii_uppercase().as_str(), "" | "0" | "OFF")
    }

    fn in_cluster(&self) -> bool {
        self.is_on("wsrep_on")
    }

    /// This connection's share of `count` things. Galera gives each node a number, so that connections of different nodes have
    /// different shares, as long as there are enough.
    fn share(&self, connection: u32, count: u32) -> u32 {
        let small =
            |name| self.number(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(1).max(1);
        let (nodes, node) = (small("auto_increment_increment"), small("auto_increment_offset") - 1);
        let each = (count / nodes.min(count)).max(1);
        (node % count + nodes % count * (connection % each)) % count
    }

    /// Refuses a server that can't keep the contract.
    fn admit(&self, settings: &Settings, packet_bytes: u64) -> Result<(), StoreError> {
        let version = self.text("version");
        let is_mariadb = version.contains("MariaDB");
        let needed = if is_mariadb { (10, 6) } else { (8, 0) };
        if parse_version(version).is_none_or(|found| found < needed) {
            return Err(StoreError::invalid(format!(
                "the server is of version {version:?}: it must be MariaDB 10.6 or MySQL 8.0, or later"
            )));
        }
        if self.is_on("read_only") || self.is_on("innodb_read_only") {
            return Err(StoreError::unavailable(
                "the server is read-only, as replicas are: connect to the one that takes writes",
            ));
        }
        let packet = self.number("max_allowed_packet").unwrap_or(0);
        if packet < packet_bytes {
            return Err(StoreError::invalid(format!(
                "the server's max_allowed_packet is {packet}: set it to {packet_bytes} or more"
            )));
        }
        if self.is_on("log_bin") && self.text("binlog_format").eq_ignore_ascii_case("STATEMENT") {
            return Err(StoreError::invalid(
                "the server's binlog_format is STATEMENT, which cannot hold our commits: set it to ROW or MIXED",
            ));
        }
        match (self.weakness(), settings.durability) {
            (Some(words), Durability::Require) => Err(StoreError::invalid(format!(
                "the server may lose acknowledged commits when it crashes: {words}, or accept this with durability=relax"
            ))),
            (Some(words), Durability::Relax) => {
                tracing::warn!(store = %settings, "the server may lose acknowledged commits when it crashes: {words}");
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }

    /// What to change so that what is acknowledged is on disk.
    fn weakness(&self) -> Option<String> {
        let flush = self.text("innodb_flush_log_at_trx_commit");
        // MariaDB's 3 does what 1 does, and more.
        if !matches!(flush, "1" | "3") {
            return Some(format!("set innodb_flush_log_at_trx_commit to 1, it is {flush}"));
        }
        // With a binary log, it is this log that decides after a crash which transactions there were.
        let sync = self.text("sync_binlog");
        if self.is_on("log_bin") && sync != "1" {
            return Some(format!("set sync_binlog to 1, it is {sync}"));
        }
        None
    }
}

fn parse_version(version: &str) -> Option<(u32, u32)> {
    // MariaDB may put this before its own version, for clients that would not believe a number above 5.
    let version = version.strip_prefix("5.5.5-").unwrap_or(version);
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new(Host { name: "h".into(), port: None }, "d")
    }

    type Fact = (&'static str, &'static str);

    fn facts(more: &[Fact]) -> Facts {
        let base = [
            ("version", "10.11.1-MariaDB"),
            ("max_allowed_packet", "16777216"),
            ("innodb_flush_log_at_trx_commit", "1"),
            ("log_bin", "OFF"),
            ("sync_binlog", "0"),
            ("read_only", "OFF"),
        ];
        Facts(base.iter().chain(more).map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn servers_that_cannot_keep_the_contract_are_refused() {
        facts(&[]).admit(&settings(), PACKET_BYTES_MIN).unwrap();
        facts(&[("version", "8.0.36"), ("log_bin", "ON"), ("sync_binlog", "1")])
            .admit(&settings(), PACKET_BYTES_MIN)
            .unwrap();
        let bad: [(&[Fact], &str, &str); 9] = [
            (&[("version", "10.5.9-MariaDB")], "invalid", "MariaDB 10.6"),
            (&[("version", "5.5.5-10.5.9-MariaDB")], "invalid", "MariaDB 10.6"),
            (&[("version", "5.7.44")], "invalid", "MySQL 8.0"),
            (&[("read_only", "ON")], "unavailable", "read-only"),
            (&[("read_only", "NO_LOCK")], "unavailable", "read-only"),
            (&[("max_allowed_packet", "1048576")], "invalid", "max_allowed_packet is 1048576"),
            (&[("innodb_flush_log_at_trx_commit", "2")], "invalid", "innodb_flush_log_at_trx_commit to 1"),
            (&[("log_bin", "ON")], "invalid", "sync_binlog to 1"),
            (
                &[("log_bin", "ON"), ("sync_binlog", "1"), ("binlog_format", "STATEMENT")],
                "invalid",
                "STATEMENT",
            ),
        ];
        for (more, kind, words) in bad {
            let error = facts(more).admit(&settings(), PACKET_BYTES_MIN).unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(words), "{more:?}: {error}");
        }
        let relaxed = Settings { durability: Durability::Relax, ..settings() };
        facts(&[("log_bin", "ON")]).admit(&relaxed, PACKET_BYTES_MIN).unwrap();
    }

    #[test]
    fn nodes_of_a_cluster_share_no_places() {
        let of = |node: &'static str, count| -> HashSet<u32> {
            let facts = facts(&[("auto_increment_increment", "3"), ("auto_increment_offset", node)]);
            (0..1000).map(|connection| facts.share(connection, count)).collect()
        };
        for count in [PLACES, DESKS] {
            let shares = [of("1", count), of("2", count), of("3", count)];
            assert!(shares[0].is_disjoint(&shares[1]) && shares[1].is_disjoint(&shares[2]));
            assert!(shares.iter().flatten().all(|share| *share < count));
        }
        let alone: HashSet<u32> = (0..1000).map(|connection| facts(&[]).share(connection, DESKS)).collect();
        assert_eq!(alone.len(), 256);
        let many = facts(&[("auto_increment_increment", "65535"), ("auto_increment_offset", "65535")]);
        assert!((0..1000).all(|connection| many.share(connection, PLACES) < PLACES));
    }
}
