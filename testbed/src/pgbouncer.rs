//! [`PgBouncer`]: a private connection pooler in front of a PostgreSQL server.

use std::{
    net::{Ipv4Addr, TcpStream},
    path::Path,
};

use anyhow::{Context, Result, bail};

use crate::{
    keeper::{Keeper, Started},
    port::Port,
    programs::{Account, program},
};

/// It refuses root, as PostgreSQL does; Debian's package runs it as the same user.
const USER: &str = "postgres";

/// Starts with another port, should somebody take the one that was just free.
const PORT_TRIES: usize = 5;

/// A private PgBouncer in transaction mode, gone with this value.
#[derive(Debug)]
pub struct PgBouncer {
    keeper: Keeper,
    port: Port,
}

impl PgBouncer {
    /// Starts one in front of the PostgreSQL server with that URL, for all its databases.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of its log.
    pub fn start(postgres: &str) -> Result<Self> {
        let server = server_port(postgres)?;
        let keeper = Keeper::new("pgbouncer", Account::unless_root(USER)?)?;
        keeper.write("users", "\"postgres\" \"\"\n")?;
        for _ in 0..PORT_TRIES {
            let port = Port::reserve()?;
            keeper.write("settings", &settings(server, port.number(), &keeper.path("users")?))?;
            let command = [program("pgbouncer")?, keeper.path("settings")?];
            let listens = |_| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).is_ok();
            if keeper.start(&command, listens)? == Started::Ready {
                return Ok(Self { keeper, port });
            }
        }
        bail!("PgBouncer found {PORT_TRIES} ports in use, one after the other.\n{}", keeper.tail());
    }

    /// Where to connect: `postgres://postgres@127.0.0.1:PORT/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// All it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.keeper.log()
    }

    /// Its folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.keeper.folder()
    }

    /// Its process id.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.keeper.server()
    }
}

/// As they come, but for the time after a failed login in which PgBouncer refuses everybody: 15 s by default, however soon the server is back.
fn settings(server: u16, port: u16, users: &str) -> String {
    format!(
        "[databases]\n\
         * = host=127.0.0.1 port={server}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = trust\n\
         auth_file = {users}\n\
         pool_mode = transaction\n\
         max_client_conn = 1000\n\
         server_login_retry = 1\n"
    )
}

fn server_port(url: &str) -> Result<u16> {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', '?']).next().unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.with_context(|| format!("the URL of the PostgreSQL server at {host:?} has no port"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_in_a_url() {
        assert_eq!(server_port("postgres://postgres@127.0.0.1:5433/postgres?a=b:1").unwrap(), 5433);
        assert!(server_port("postgres://localhost/postgres").is_err());
    }
}
