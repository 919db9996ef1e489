//! [`Postgres`]: a private PostgreSQL server.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};

use crate::{
    Options,
    clock::Clock,
    keeper::{Keeper, Started},
    port::Port,
    programs::{Account, program, run, text},
    tls::Certificates,
};

/// The user that Debian's package makes.
const USER: &str = "postgres";

/// Starts with another port, should somebody take the one that was just free.
const PORT_TRIES: usize = 5;

/// What differs from PostgreSQL's own defaults. No Unix socket: its path could be too long. What parallel queries share is in files of the
/// data's folder: segments of memory with names of their own would outlive a server that is killed.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("max_connections", "200"),
    ("dynamic_shared_memory_type", "mmap"),
];

/// Who may come in: everyone, but the user `tenure` needs its password, if there is one.
const ACCESS: &str = "host all tenure 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";

/// An empty database, made once in this process and copied for each server: making one takes a second.
static TEMPLATE: Mutex<Option<Keeper>> = Mutex::new(None);

/// A private PostgreSQL server, gone with this value.
#[derive(Debug)]
pub struct Postgres {
    keeper: Keeper,
    port: Port,
    options: Options,
    clock: Option<Clock>,
    certificates: Option<Certificates>,
}

impl Postgres {
    /// Starts a server.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of its log.
    pub fn start() -> Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Starts a server with options.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of its log.
    pub fn start_with(options: &Options) -> Result<Self> {
        options.check()?;
        let keeper = Keeper::new("postgres", Account::unless_root(USER)?)?;
        copy_template(&keeper)?;
        let clock = options.faketime.then(|| Clock::new(&keeper)).transpose()?;
        let certificates = options.tls.then(|| Certificates::new(&keeper)).transpose()?;
        let mut server =
            Self { keeper, port: Port::reserve()?, options: options.clone(), clock, certificates };
        server.configure()?;
        for _ in 0..PORT_TRIES {
            if server.keeper.start(&server.command()?, |id| server.is_ready(id))? == Started::Ready {
                server.make_user()?;
                return Ok(server);
            }
            server.port = Port::reserve()?;
        }
        bail!("PostgreSQL found {PORT_TRIES} ports in use, one after the other.\n{}", server.keeper.tail());
    }

    /// Where to connect, for a superuser: `postgres://postgres@127.0.0.1:PORT/postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        let login = self.options.login("tenure", "postgres@");
        format!("postgres://{login}127.0.0.1:{}/postgres", self.port())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Kills all its processes with SIGKILL, and waits until the server is gone. Its data stays.
    ///
    /// # Errors
    /// If its keeper is gone.
    pub fn kill(&self) -> Result<()> {
        self.keeper.kill()
    }

    /// Starts it again after a [`kill`](Self::kill), with the same port and data. Returns when it accepts queries.
    ///
    /// # Errors
    /// If it can't be started; the error shows the end of its log.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        self.keeper.restart(&self.command()?, |id| self.is_ready(id))
    }

    /// Its process id, unless it was killed.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.keeper.server()
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

    /// The certificate of the authority that signed the server's, with [`Options::tls`].
    ///
    /// # Panics
    /// Without that option.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.certificates.as_ref().expect("the server was started with `tls`").ca()
    }

    /// Sets how many seconds the server's wall clock is ahead (or, negative, behind), with [`Options::faketime`].
    ///
    /// # Errors
    /// Without that option, or if the clock's file can't be written.
    pub fn step_clock(&self, seconds: i64) -> Result<()> {
        self.clock.as_ref().context("the server was not started with `faketime`")?.step(seconds)
    }

    fn command(&self) -> Result<Vec<String>> {
        let mut command = self.clock.as_ref().map_or(Ok(Vec::new()), Clock::prefix)?;
        let port = self.port().to_string();
        let (server, data) = (program("postgres")?, self.keeper.path("data")?);
        let words = [&server, "-D", &data, "-p", &port];
        command.extend(words.map(str::to_owned));
        Ok(command)
    }

    fn configure(&self) -> Result<()> {
        let mut settings: Vec<(String, String)> =
            SETTINGS.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        if self.certificates.is_some() {
            settings.push(("ssl".to_owned(), "on".to_owned()));
            settings.push(("ssl_cert_file".to_owned(), self.keeper.path("server.pem")?));
            settings.push(("ssl_key_file".to_owned(), self.keeper.path("server.key")?));
        }
        settings.extend_from_slice(&self.options.settings);
        let lines: String = settings.iter().map(|(name, value)| line(name, value)).collect();
        let path = self.dir().join("data/postgresql.conf");
        let before =
            std::fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        self.keeper.write("data/postgresql.conf", &format!("{before}\n{lines}"))?;
        self.keeper.write("data/pg_hba.conf", ACCESS)
    }

    fn make_user(&self) -> Result<()> {
        let Some(password) = &self.options.password else { return Ok(()) };
        let statement = format!("create role tenure login superuser password '{password}'");
        let url = format!("postgres://postgres@127.0.0.1:{}/postgres", self.port());
        run(&Account::own(), &[&program("psql")?, "-X", "-q", "-c", &statement, &url]).map(drop)
    }

    /// Whether it accepts queries, as it tells whoever starts it: the eighth line of its file says so, for the process that the first names.
    fn is_ready(&self, id: u32) -> bool {
        let Ok(file) = std::fs::read_to_string(self.dir().join("data/postmaster.pid")) else { return false };
        let lines: Vec<&str> = file.lines().map(str::trim).collect();
        lines.first() == Some(&id.to_string().as_str()) && lines.get(7) == Some(&"ready")
    }
}

/// A line of `postgresql.conf`.
fn line(name: &str, value: &str) -> String {
    format!("{name} = '{}'\n", value.replace('\'', "''"))
}

fn copy_template(keeper: &Keeper) -> Result<()> {
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_none() {
        *template = Some(make_template()?);
    }
    let from = template.as_ref().context("it was made above")?.path("data")?;
    run(keeper.account(), &["cp", "-a", "--sparse=always", &from, text(keeper.folder())?]).map(drop)
}

fn make_template() -> Result<Keeper> {
    let keeper = Keeper::new("postgres-template", Account::unless_root(USER)?)?;
    let initdb = program("initdb")?;
    let data = keeper.path("data")?;
    let command = [&initdb[..], "-D", &data, "-U", "postgres", "--auth=trust", "--no-locale"];
    run(keeper.account(), &[&command[..], &["-E", "UTF8", "--no-sync"]].concat())?;
    Ok(keeper)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_quoted() {
        assert_eq!(line("a", "it's"), "a = 'it''s'\n");
    }
}
