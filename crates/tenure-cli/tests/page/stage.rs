//! [`Stage`]: a daemon and nodes as real processes, and the browser's script, which may ask for changes among them.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use tempfile::TempDir;

use crate::keeper;

/// The cluster that all take part in.
pub(crate) const CLUSTER: &str = "page";

/// A script that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// One stage at a time: a browser takes all that a small machine has, and what must be done in time would wait for it.
static ALONE: Mutex<()> = Mutex::new(());

/// A process, killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything that a page is looked at with.
pub(crate) struct Stage {
    nodes: BTreeMap<String, Process>,
    daemon: Option<Process>,
    address: SocketAddr,
    options: Vec<String>,
    folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Stage {
    /// A daemon that runs; each of its options names a file with this in it.
    pub(crate) fn new(options: &[(&str, &str)]) -> Self {
        // A test that failed has left nothing behind.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        let mut words = Vec::new();
        for (option, text) in options {
            let file = folder.path().join(option);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            words.extend([format!("--{option}"), file.display().to_string()]);
        }
        // A port that is free, and stays the same when the daemon is started again.
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut stage =
            Self { nodes: BTreeMap::new(), daemon: None, address, options: words, folder, _alone: alone };
        stage.start_daemon();
        stage
    }

    /// The URL of the store.
    pub(crate) fn store(&self) -> String {
        format!("sqlite:{}", self.folder.path().join("store.db").display())
    }

    fn command(&self, words: &[&str], node: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(words).args(["--node", node, "--cluster", CLUSTER, "--store", &self.store()]);
        command.stdout(Stdio::piped());
        command
    }

    fn start_daemon(&mut self) {
        let mut command = self.command(&["serve", "--listen", &self.address.to_string()], "daemon");
        let mut process = Process(command.args(&self.options).spawn().unwrap());
        let line = first_line(&mut process);
        assert!(line.contains("http://"), "it says where it serves: {line:?}");
        self.daemon = Some(process);
    }

    /// Starts a node that stands for the office `job`. The first one leads it.
    pub(crate) fn start(&mut self, node: &str) {
        let mut command =
            self.command(&["run", "job", "--ttl", "3s", "--restart", "always", "--quiet"], node);
        let mut process =
            Process(command.args(["--", "sh", "-c", "echo leads; exec sleep 1000"]).spawn().unwrap());
        if self.nodes.is_empty() {
            assert_eq!(first_line(&mut process).trim(), "leads");
        }
        self.nodes.insert(node.to_owned(), process);
    }

    /// Lets the script look at the page, and does what it asks for; what it `hears` comes first.
    pub(crate) fn look(&mut self, case: &str, hears: &[&str]) {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page");
        let mut script = Process(
            Command::new(python())
                .arg(scripts.join("cases.py"))
                .args([case, &format!("http://{}", self.address)])
                .args(std::env::var_os("TENURE_PAGE_PICTURES"))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut input = script.0.stdin.take().unwrap();
        let output = BufReader::new(script.0.stdout.take().unwrap());
        if !hears.is_empty() {
            writeln!(input, "{}", hears.join(" ")).unwrap();
        }
        let (tell, told) = mpsc::sync_channel(16);
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        loop {
            match told.recv_timeout(LIMIT) {
                Ok(line) => match line.strip_prefix("stage: ") {
                    Some(wish) => {
                        self.change(wish);
                        writeln!(input, "done").unwrap();
                    }
                    None => println!("{line}"),
                },
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the script of {case} hangs"),
            }
        }
        let status = script.0.wait().unwrap();
        assert!(status.success(), "{case}: the script found something wrong, see above: {status}");
    }

    fn change(&mut self, wish: &str) {
        match wish.split(' ').collect::<Vec<_>>()[..] {
            ["kill-daemon"] => self.daemon = None,
            ["start-daemon"] => self.start_daemon(),
            ["kill", node] => assert!(self.nodes.remove(node).is_some(), "there is no {node}"),
            ["start", node] => self.start(node),
            ["lenient"] => keeper::relent(),
            _ => panic!("{wish:?} can't be done"),
        }
    }
}

fn first_line(process: &mut Process) -> String {
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

/// Where the gate has put the packages of Python that a script needs.
fn python() -> PathBuf {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` makes it", python.display());
    python
}
