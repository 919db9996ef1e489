//! [`Task`]: one process, run to its end within a bound, its output read as it comes.
//!
//! Standard output and standard error share one pipe, so their lines keep the order in which they were written.
//! A process that outstays its limit is killed together with its descendants.

use std::{
    fmt,
    io::{BufRead, BufReader, PipeReader},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};

/// Longer than any step takes on a slow machine from scratch: what is still running then hangs.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60 * 60);

/// How often a silent process is looked at. Short beside any step, long beside the cost of looking.
const TICK: Duration = Duration::from_millis(50);

/// How long output may still come after a process has ended. Only a descendant that it left behind can make use of it.
const DRAIN: Duration = Duration::from_secs(2);

/// Lines read ahead of what was handled. Bounds memory; a process that writes faster waits.
const LINES_AHEAD: usize = 1024;

/// A process to run.
pub(crate) struct Task {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    directory: PathBuf,
    limit: Duration,
}

/// How a task ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ended {
    /// By itself, or by a signal that was not ours.
    Exit(ExitStatus),
    /// It was killed after its limit, which is given.
    TimedOut(Duration),
}

impl Task {
    /// The cargo that runs us, in a directory.
    pub(crate) fn cargo(directory: &Path, args: &[&str]) -> Self {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        Self {
            program: cargo,
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            env: Vec::new(),
            directory: directory.to_owned(),
            limit: DEFAULT_LIMIT,
        }
    }

    /// Any other program, found on the path, in a directory.
    pub(crate) fn program(directory: &Path, program: &str, args: &[&str]) -> Self {
        Self { program: program.to_owned(), ..Self::cargo(directory, args) }
    }

    /// Sets a variable of its environment.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Bounds how long it may run.
    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it and hands each line of its output to `line` as it comes.
    pub(crate) fn stream(&self, mut line: impl FnMut(&str)) -> Result<Ended> {
        let started = now();
        let (mut child, lines) = self.spawn()?;
        let mut ended: Option<(ExitStatus, Instant)> = None;
        loop {
            match lines.recv_timeout(TICK) {
                Ok(text) => line(&text),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if ended.is_none() {
                        ended = child.try_wait()?.map(|status| (status, now()));
                    }
                    if ended.is_some_and(|(_, since)| since.elapsed() > DRAIN) {
                        break;
                    }
                }
            }
            if ended.is_none() && started.elapsed() > self.limit {
                return self.give_up(&mut child, &lines, line);
            }
        }
        Ok(Ended::Exit(child.wait()?))
    }

    /// Runs it in silence and returns what it wrote.
    pub(crate) fn capture(&self) -> Result<(Ended, String)> {
        let mut output = String::new();
        let ended = self.stream(|line| {
            output.push_str(line);
            output.push('\n');
        })?;
        Ok((ended, output))
    }

    /// Runs it on our own terminal, without a bound: somebody is watching.
    pub(crate) fn attached(&self) -> Result<ExitCode> {
        let status = self.command().status().with_context(|| format!("could not start `{self}`"))?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(&self.directory);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    fn spawn(&self) -> Result<(Child, Receiver<String>)> {
        let (reader, writer) = std::io::pipe().context("could not make a pipe")?;
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn().with_context(|| format!("could not start `{self}`"))?;
        // Our copies of the pipe's writing end go with the command: the reader must see the end when the child closes its own.
        drop(command);
        Ok((child, read_lines(reader)))
    }

    fn give_up(
        &self,
        child: &mut Child,
        lines: &Receiver<String>,
        mut line: impl FnMut(&str),
    ) -> Result<Ended> {
        kill_tree(child);
        child.wait()?;
        let since = now();
        while since.elapsed() < DRAIN {
            match lines.recv_timeout(TICK) {
                Ok(text) => line(&text),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(Ended::TimedOut(self.limit))
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={value:?} ")?;
        }
        let program = Path::new(&self.program)
            .file_name()
            .map_or(self.program.as_str().into(), |name| name.to_string_lossy());
        write!(f, "{program} {}", self.args.join(" "))
    }
}

impl Ended {
    /// Whether it ended by itself, with exit code 0.
    pub(crate) fn well(self) -> bool {
        matches!(self, Self::Exit(status) if status.success())
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(f, "{status}"),
            Self::TimedOut(limit) => write!(f, "killed after its limit of {} s", limit.as_secs()),
        }
    }
}

/// The time, to measure how long steps take. The one place here that reads a clock.
#[expect(clippy::disallowed_methods, reason = "the gate runs in real time, and nothing of it is simulated")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn read_lines(pipe: PipeReader) -> Receiver<String> {
    let (sender, receiver) = sync_channel(LINES_AHEAD);
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { break };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Kills a child and its descendants, as far as this system tells which they are. Not by process group: a group of its own would keep
/// the terminal's Ctrl-C from the child. A descendant that has made a group of its own is left: it is the keeper of a test's server, which
/// cleans up and ends by itself when its owner is gone.
fn kill_tree(child: &mut Child) {
    let mut found = vec![child.id()];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        found.extend(children(pid));
        next += 1;
    }
    let pids: Vec<String> = found.iter().map(u32::to_string).collect();
    // Failures are fine: whoever ended in the meantime need not be killed.
    let _ = Command::new("sh").args(["-c", "kill -9 \"$@\"", "sh"]).args(pids).stderr(Stdio::null()).status();
    let _ = child.kill();
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .filter(|&child| group(child) != Some(child))
        .collect()
}

/// The process group of a process.
fn group(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Behind the name, which is in parentheses and may contain anything: state, parent, group.
    stat.rsplit_once(") ")?.1.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Task {
        Task::program(Path::new("."), "sh", &["-c", script])
    }

    #[test]
    fn both_outputs_come_in_the_order_they_were_written() {
        let (ended, output) = shell("echo 1; echo 2 >&2; echo 3; exit 7").capture().unwrap();
        assert_eq!(output, "1\n2\n3\n");
        assert!(!ended.well());
        assert!(ended.to_string().contains('7'), "{ended}");
    }

    #[test]
    fn a_task_that_hangs_is_killed_with_its_children() {
        let limit = Duration::from_millis(300);
        let started = now();
        // The last shell closes nothing: were it left alive, it would hold the pipe open.
        let (ended, output) =
            shell("echo begun; sh -c 'sleep 100; true'; true").limit(limit).capture().unwrap();
        assert!(matches!(ended, Ended::TimedOut(_)), "{ended}");
        assert_eq!(output, "begun\n");
        assert!(started.elapsed() < limit + DRAIN, "the pipe was closed, so nothing was left running");
    }

    #[test]
    fn a_descendant_with_a_group_of_its_own_is_left_to_itself() {
        let script = "setsid sleep 5 >/dev/null 2>&1 & echo $!; sleep 100";
        let (ended, output) = shell(script).limit(Duration::from_millis(500)).capture().unwrap();
        assert!(matches!(ended, Ended::TimedOut(_)), "{ended}");
        let pid: u32 = output.trim().parse().unwrap();
        assert_eq!(group(pid), Some(pid));
        // One that was killed may stay for a while, for its new parent to ask how it ended.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        assert!(stat.contains(") S "), "it sleeps on: {stat}");
    }

    #[test]
    fn a_descendant_left_behind_does_not_hold_us_up() {
        let (ended, output) = shell("sleep 5 & echo gone").capture().unwrap();
        assert!(ended.well());
        assert_eq!(output, "gone\n");
    }

    #[test]
    fn a_program_that_does_not_exist_is_an_error() {
        let error = Task::program(Path::new("."), "no-such-program", &["now"]).capture().unwrap_err();
        assert!(error.to_string().contains("no-such-program now"), "{error}");
    }
}
