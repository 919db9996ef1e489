//! `cargo xtask services`: real servers for tests that are run by hand, as `cargo test -p tenure-postgres`.
//!
//! `start` leaves a process behind, the holder, which owns the servers and does nothing else. It holds a lock on a file in the workspace's
//! `target` folder, which tells `stop` and `status` whom to ask, so each clone has its own servers. When the holder ends, in whatever
//! way, the servers and their data go with it: that is what the crate `tenure-testbed` promises.

mod record;
mod set;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, setsid},
};

use self::record::{Lock, Record, Running};
pub(crate) use self::set::Services;
use crate::{needs, task::now, workspace::Workspace};

/// The command of the process that owns the servers. Nobody but `start` gives it.
const HOLD: &str = "hold";

/// What adds the Galera cluster to the others: it takes ten seconds more, and few tests need it.
const GALERA: &str = "--galera";

/// The last line that a holder prints: its servers are ready.
const READY: &str = "ready";

/// How long servers and their folders may take to go.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// How often we look whether they are gone.
const TICK: Duration = Duration::from_millis(50);

/// Runs one of the commands, unless there is no such command. Whether all is well.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Option<Result<bool>> {
    let outcome = match arguments {
        ["start"] => start(workspace, false),
        ["start", GALERA] => start(workspace, true),
        [HOLD] => hold(workspace, false),
        [HOLD, GALERA] => hold(workspace, true),
        ["stop"] => stop(workspace),
        ["status"] => return Some(status(workspace)),
        _ => return None,
    };
    Some(outcome.map(|()| true))
}

/// Starts the servers and prints how tests find them.
fn start(workspace: &Workspace, galera: bool) -> Result<()> {
    if let Some(running) = Running::find(workspace)? {
        println!("The servers already run.\n");
        tell(&running.record()?);
        return Ok(());
    }
    let missing = needs::provide(needs::NEEDS, &needs::Machine::new(workspace.root()));
    ensure!(missing.is_empty(), "what the servers need is missing:\n{}", missing.join("\n"));
    println!("Starting the servers ...");
    let mut holder = Command::new(std::env::current_exe().context("this program does not know where it is")?);
    holder.args(["services", HOLD]).args(galera.then_some(GALERA)).current_dir(workspace.root());
    let (reader, writer) = std::io::pipe().context("could not make a pipe")?;
    holder.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let _holder = holder.spawn().context("could not start the process that owns the servers")?;
    // Our copies of the pipe's writing end go with the command: the reader must see the end when the holder closes its own.
    drop(holder);
    let mut said = String::new();
    for line in BufReader::new(reader).lines() {
        let line = line.context("could not read what the holder says")?;
        if line == READY {
            let running = Running::find(workspace)?.context("the holder ended as soon as it was ready")?;
            tell(&running.record()?);
            return Ok(());
        }
        said.push_str(&line);
        said.push('\n');
    }
    bail!("the servers could not be started:\n{said}");
}

/// Owns the servers until it is killed.
fn hold(workspace: &Workspace, galera: bool) -> Result<()> {
    // Away from the terminal: closing it, or Ctrl-C in it, is not for us.
    setsid().context("could not leave the terminal")?;
    let mut lock = Lock::take(workspace)?;
    lock.write(&Record::new(Vec::new(), Vec::new()))?;
    let services = Services::start(galera)?;
    lock.write(&Record::new(services.variables(), tenure_testbed::folders()))?;
    // If nobody is there any more to hear it, the servers go at once.
    let mut out = std::io::stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush()).context("whoever wanted the servers is gone")?;
    loop {
        thread::park();
    }
}

/// Ends the servers, and waits until nothing of them is left.
fn stop(workspace: &Workspace) -> Result<()> {
    let Some(running) = Running::find(workspace)? else {
        println!("No servers run.");
        return Ok(());
    };
    let record = running.record()?;
    let pid = i32::try_from(record.pid).context("the record names no process")?;
    kill(Pid::from_raw(pid), Signal::SIGTERM).context("could not end the process that owns the servers")?;
    let begun = now();
    while Running::find(workspace)?.is_some() || record.folders.iter().any(|folder| folder.exists()) {
        ensure!(
            begun.elapsed() < STOP_LIMIT,
            "something of the servers is left after {} s; look at process {pid} and at {:?}",
            STOP_LIMIT.as_secs(),
            record.folders
        );
        thread::sleep(TICK);
    }
    record::remove(workspace)?;
    println!("The servers are gone.");
    Ok(())
}

/// Prints the URL of each server, and whether it answers. Whether all do.
fn status(workspace: &Workspace) -> Result<bool> {
    let Some(running) = Running::find(workspace)? else {
        println!("No servers run. `cargo xtask services start` starts them.");
        return Ok(false);
    };
    let record = running.record()?;
    if record.variables.is_empty() {
        println!("The servers are being started, by process {}.", record.pid);
        return Ok(false);
    }
    let mut all = true;
    for (variable, urls) in &record.variables {
        let answers = set::each_url(variable, urls).all(tenure_testbed::answers);
        println!("{variable}={urls}  {}", if answers { "answers" } else { "DOES NOT ANSWER" });
        all &= answers;
    }
    Ok(all)
}

fn tell(record: &Record) {
    for (variable, url) in &record.variables {
        println!("export {variable}='{url}'");
    }
    println!(
        "\nTests in a shell with these variables use these servers. End them with `cargo xtask services stop`."
    );
}
