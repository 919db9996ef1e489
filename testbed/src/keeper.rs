//! [`Keeper`]: holds one server process and its folder, so that both are gone when we are, even when we are killed.
//!
//! A small shell script stands between us and the server. It has the server as its child, makes and owns the folder, and reads from a pipe
//! that only we hold open. When the pipe closes, because the keeper was dropped or our process ended in whatever way, the script
//! kills the server with SIGKILL and removes the folder. Killing and restarting a server on purpose are commands on that pipe, so the folder
//! stays, and there is no moment in which nobody looks after it.

use std::{
    collections::BTreeSet,
    env,
    fs::File,
    io::{BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    programs::{Account, text},
    wait,
};

const SCRIPT: &str = include_str!("keeper.sh");

/// A server that is not ready by then never will be. Long, since the machine may be busy and a restart may have a log to replay.
const START_LIMIT: Duration = Duration::from_secs(90);

/// How long what a killed server left behind (a port, shared memory) may stand in the way of its restart.
const BUSY_LIMIT: Duration = Duration::from_secs(30);

/// Lines of the log that an error shows.
const LOG_TAIL: usize = 40;

/// What servers say, each in its own words, when a port or a folder is not free yet.
const BUSY: &[&str] = &["already in use", "still in use", "lock file \"postmaster.pid\" already exists"];

/// The folders of all keepers of this process.
static FOLDERS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The folders of all servers of this process, for whoever wants to see them go.
#[must_use]
pub fn folders() -> Vec<PathBuf> {
    all_folders().iter().cloned().collect()
}

/// The keeper of one folder and of the server that lives in it.
#[derive(Debug)]
pub(crate) struct Keeper {
    folder: PathBuf,
    /// Whoever runs the server, and owns the folder.
    account: Account,
    script: Mutex<Script>,
}

/// What came of a start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    /// The server is ready.
    Ready,
    /// It ended, since something that it needs is still in use.
    Busy,
}

#[derive(Debug)]
struct Script {
    process: Child,
    /// `None` once it was told to end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The server's process id, while it runs or is believed to.
    server: Option<u32>,
}

impl Keeper {
    /// Makes a folder, with a name that tells the kind of server, and starts its keeper. There is no server yet.
    pub(crate) fn new(kind: &str, account: Account) -> Result<Self> {
        let pattern = env::temp_dir().join(format!("tenure-{kind}-XXXXXX"));
        let mut process = Command::new("sh");
        process.args(["-c", SCRIPT, "sh", text(&pattern)?]).current_dir("/");
        // A group of its own: Ctrl-C is for us, and the script must live on to clean up after us.
        process.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = process.spawn().context("could not start `sh`")?;
        let commands = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().context("the script has no output")?);
        let mut script = Script { process, commands, answers, server: None };
        let folder = PathBuf::from(script.answer().context("could not make a folder for a server")?);
        all_folders().insert(folder.clone());
        let keeper = Self { folder, account, script: Mutex::new(script) };
        keeper.account.give(&keeper.folder)?;
        Ok(keeper)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A path in the folder, as text.
    pub(crate) fn path(&self, name: &str) -> Result<String> {
        text(&self.folder.join(name)).map(str::to_owned)
    }

    /// Whoever runs the server.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Writes a file into the folder, for the server to read.
    pub(crate) fn write(&self, name: &str, content: &str) -> Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("could not write {}", path.display()))?;
        self.account.give(&path)
    }

    /// Starts the server and waits until `ready`, which is given its process id, says so.
    ///
    /// # Errors
    /// If it ends or is not ready in time; the error shows the end of its log.
    pub(crate) fn start(&self, command: &[String], ready: impl Fn(u32) -> bool) -> Result<Started> {
        let begins = self.begin(command)?;
        self.await_ready(&begins, ready)
    }

    /// Starts the server again, as often as what the last one left stands in the way.
    pub(crate) fn restart(&self, command: &[String], ready: impl Fn(u32) -> bool) -> Result<()> {
        let done = wait::until(BUSY_LIMIT, || match self.start(command, &ready) {
            Ok(Started::Ready) => Some(Ok(())),
            Ok(Started::Busy) => None,
            Err(error) => Some(Err(error)),
        });
        done.unwrap_or_else(|| bail!("a restart found something still in use.\n{}", self.tail()))
    }

    /// Starts the server and does not wait.
    pub(crate) fn begin(&self, command: &[String]) -> Result<Begun> {
        ensure!(!command.iter().any(|word| word.contains('\n')), "a line break in a command: {command:?}");
        let mut words = self.account.prefix();
        words.extend_from_slice(command);
        let line: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let log_before = std::fs::metadata(self.log_path()).map_or(0, |log| log.len());
        let mut script = self.script();
        let id = script.ask(&format!("start {}", line.join(" ")))?;
        let id = id.parse().with_context(|| format!("the script answered {id:?}"))?;
        script.server = Some(id);
        Ok(Begun { id, program: command.first().cloned().unwrap_or_default(), log_before })
    }

    /// Waits until a server that was begun is ready.
    pub(crate) fn await_ready(&self, begun: &Begun, ready: impl Fn(u32) -> bool) -> Result<Started> {
        let done = wait::until(START_LIMIT, || {
            if ready(begun.id) {
                return Some(Ok(Started::Ready));
            }
            (!lives(begun.id)).then(|| self.failed(begun))
        });
        done.unwrap_or_else(|| {
            let limit = START_LIMIT.as_secs();
            bail!("`{}` was not ready after {limit} s.\n{}", begun.program, self.tail())
        })
    }

    /// Kills the server with SIGKILL, and what it started, and waits until it is gone. Nothing happens if it does not run.
    pub(crate) fn kill(&self) -> Result<()> {
        let mut script = self.script();
        script.ask("kill")?;
        script.server = None;
        Ok(())
    }

    /// The process id of the server, unless it was killed or has ended.
    pub(crate) fn server(&self) -> Option<u32> {
        self.script().server.filter(|&id| lives(id))
    }

    /// The whole log.
    pub(crate) fn log(&self) -> String {
        self.log_from(0)
    }

    /// The end of the log, as it stands in errors.
    pub(crate) fn tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_TAIL)..];
        format!("The end of its log:\n{}", shown.join("\n"))
    }

    fn failed(&self, begun: &Begun) -> Result<Started> {
        let log = self.log_from(begun.log_before);
        if BUSY.iter().any(|busy| log.contains(busy)) {
            return Ok(Started::Busy);
        }
        bail!("`{}` ended instead of becoming ready.\n{}", begun.program, self.tail());
    }

    fn log_from(&self, start: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(self.log_path()).and_then(|mut log| {
            log.seek(SeekFrom::Start(start))?;
            log.read_to_end(&mut bytes)
        });
        match read {
            Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("(no log: {error})"),
        }
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        // A panic of another thread leaves the script as usable as it was.
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut script = self.script();
        script.commands = None;
        // It ends by itself, after the server and the folder.
        let _ = script.process.wait();
        all_folders().remove(&self.folder);
    }
}

fn all_folders() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that was started and may not be ready yet.
#[derive(Debug)]
pub(crate) struct Begun {
    id: u32,
    program: String,
    /// Where its part of the log begins.
    log_before: u64,
}

impl Script {
    fn ask(&mut self, command: &str) -> Result<String> {
        let commands = self.commands.as_mut().context("the server's keeper was told to end")?;
        writeln!(commands, "{command}").context("the server's keeper is gone")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).context("the server's keeper does not answer")?;
        ensure!(line.ends_with('\n'), "the server's keeper has ended");
        line.truncate(line.len() - 1);
        Ok(line)
    }
}

/// Whether a process exists and has not ended. One that has ended stays a while, for its parent to ask how.
pub(crate) fn lives(id: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    // The state stands behind the name, which is in parentheses and may contain anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// A word as the shell reads it back.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<String> {
        command.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn words_reach_the_server_as_they_are() {
        let keeper = Keeper::new("test", Account::own()).unwrap();
        let odd = "a 'b' $HOME \"c\" \\ ; * & #";
        let echo = words(&["sh", "-c", "echo \"$1\"; exec sleep 100", "sh", odd]);
        let done = keeper.start(&echo, |_| keeper.log().contains('#')).unwrap();
        assert_eq!(done, Started::Ready);
        assert_eq!(keeper.log(), format!("{odd}\n"));
    }

    #[test]
    fn a_kill_takes_what_the_server_started_and_leaves_the_folder() {
        let keeper = Keeper::new("test", Account::own()).unwrap();
        // One child in the server's session, and one that left it.
        let script = "sleep 101 & echo $!; setsid sleep 102 & echo $!; exec sleep 103";
        keeper.start(&words(&["sh", "-c", script]), |_| keeper.log().lines().count() == 2).unwrap();
        let server = keeper.server().unwrap();
        let children: Vec<u32> = keeper.log().lines().map(|line| line.parse().unwrap()).collect();
        keeper.kill().unwrap();
        assert!(!lives(server));
        for child in children {
            let gone = wait::until(Duration::from_secs(5), || (!lives(child)).then_some(()));
            assert!(gone.is_some(), "{child} lives");
        }
        assert!(keeper.server().is_none());
        assert!(keeper.folder().is_dir() && folders().contains(&keeper.folder));
        let folder = keeper.folder().to_owned();
        drop(keeper);
        assert!(!folder.exists() && !folders().contains(&folder));
    }

    #[test]
    fn a_server_that_ends_is_an_error_with_its_log() {
        let keeper = Keeper::new("test", Account::own()).unwrap();
        let error =
            keeper.start(&words(&["sh", "-c", "echo no such option; exit 1"]), |_| false).unwrap_err();
        assert!(error.to_string().contains("no such option"), "{error}");
        let busy = keeper.start(&words(&["sh", "-c", "echo address already in use; exit 1"]), |_| false);
        assert_eq!(busy.unwrap(), Started::Busy);
        // What an earlier start wrote is not taken for the cause of this one's end.
        assert!(keeper.start(&words(&["false"]), |_| false).is_err());
    }
}
