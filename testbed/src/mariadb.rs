//! [`MariaDb`]: a private MariaDB server.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
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
const USER: &str = "mysql";

/// Starts with another port, should somebody take the one that was just free.
const PORT_TRIES: usize = 5;

/// How long one question whether it is ready may take.
const GREETING_LIMIT: Duration = Duration::from_secs(1);

/// What a server says first, behind the four bytes of the packet's header: the version of its protocol.
const PROTOCOL: u8 = 10;

/// An empty database, made once in this process and copied for each server: making one takes a second.
static TEMPLATE: Mutex<Option<Keeper>> = Mutex::new(None);

/// A private MariaDB server, gone with this value.
#[derive(Debug)]
pub struct MariaDb {
    keeper: Keeper,
    port: Port,
    options: Options,
    clock: Option<Clock>,
    certificates: Option<Certificates>,
}

impl MariaDb {
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
        let keeper = new_keeper("mariadb")?;
        let clock = options.faketime.then(|| Clock::new(&keeper)).transpose()?;
        let certificates = options.tls.then(|| Certificates::new(&keeper)).transpose()?;
        let mut server =
            Self { keeper, port: Port::reserve()?, options: options.clone(), clock, certificates };
        server.keeper.write("init.sql", &first_statements(options))?;
        for _ in 0..PORT_TRIES {
            let mut command = server.command()?;
            command.push(format!("--init-file={}", server.keeper.path("init.sql")?));
            if server.keeper.start(&command, |_| greets(server.port()))? == Started::Ready {
                return Ok(server);
            }
            server.port = Port::reserve()?;
        }
        bail!("MariaDB found {PORT_TRIES} ports in use, one after the other.\n{}", server.keeper.tail());
    }

    /// Where to connect, for a user with all rights: `mysql://root@127.0.0.1:PORT/test`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://{}127.0.0.1:{}/test", self.options.login("tenure", "root@"), self.port())
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Kills it with SIGKILL, and waits until it is gone. Its data stays.
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
        self.keeper.restart(&self.command()?, |_| greets(self.port()))
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
        command.extend(base_command(&self.keeper, self.port())?);
        if self.certificates.is_some() {
            for (option, file) in
                [("ssl-cert", "server.pem"), ("ssl-key", "server.key"), ("ssl-ca", "ca.pem")]
            {
                command.push(format!("--{option}={}", self.keeper.path(file)?));
            }
        }
        command.extend(self.options.settings.iter().map(|(name, value)| format!("--{name}={value}")));
        Ok(command)
    }
}

/// A keeper with an empty database in its folder.
pub(crate) fn new_keeper(kind: &str) -> Result<Keeper> {
    let keeper = Keeper::new(kind, Account::unless_root(USER)?)?;
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    if template.is_none() {
        *template = Some(make_template()?);
    }
    let from = template.as_ref().context("it was made above")?.path("data")?;
    run(keeper.account(), &["cp", "-a", "--sparse=always", &from, text(keeper.folder())?])?;
    Ok(keeper)
}

/// The words that start a server, but for its options.
pub(crate) fn base_command(keeper: &Keeper, port: u16) -> Result<Vec<String>> {
    let port = format!("--port={port}");
    let [data, temporary] = folders(keeper)?;
    let server = program("mariadbd")?;
    let words = [
        &server,
        "--no-defaults",
        &data,
        &temporary,
        &port,
        "--bind-address=127.0.0.1",
        // In the data's folder, which is where it runs: a full path could be too long for a socket.
        "--socket=socket",
        "--pid-file=pid",
        "--skip-log-bin",
        "--max-connections=500",
    ];
    Ok(words.map(str::to_owned).to_vec())
}

/// Where its data is, and its temporary files: a server that starts removes those of others from a folder that it shares with them.
fn folders(keeper: &Keeper) -> Result<[String; 2]> {
    Ok([format!("--datadir={}", keeper.path("data")?), format!("--tmpdir={}", text(keeper.folder())?)])
}

/// What a server does before anybody can connect for the first time: one statement a line.
pub(crate) fn first_statements(options: &Options) -> String {
    let mut statements = "create database if not exists test;\n".to_owned();
    if let Some(password) = &options.password {
        statements.push_str(&format!("create user tenure@'%' identified by '{password}';\n"));
        statements.push_str("grant all on *.* to tenure@'%' with grant option;\n");
    }
    statements
}

/// Whether a server accepts connections on a port: it speaks first, once it does.
pub(crate) fn greets(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut greeting = [0; 5];
    let read = TcpStream::connect_timeout(&address, GREETING_LIMIT).and_then(|mut stream| {
        stream.set_read_timeout(Some(GREETING_LIMIT))?;
        stream.read_exact(&mut greeting)
    });
    read.is_ok() && greeting[4] == PROTOCOL
}

fn make_template() -> Result<Keeper> {
    let keeper = Keeper::new("mariadb-template", Account::unless_root(USER)?)?;
    let [data, temporary] = folders(&keeper)?;
    let install = program("mariadb-install-db")?;
    let command = [&install, "--no-defaults", &data, &temporary];
    let options = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
    run(keeper.account(), &[&command[..], &options].concat())?;
    Ok(keeper)
}
