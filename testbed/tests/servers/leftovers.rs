//! Nothing is left of a server when its owner ends, in whatever way, and owners do not get in each other's way.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tenure_testbed::{Etcd, MariaDb, Options, Postgres, answers};

use crate::{
    clients::{eventually, gone, lives},
    trial,
};

/// The argument that makes this program an owner of servers.
pub(crate) const OWNER: &str = "own-servers";

/// The argument that makes this program ask for the shared server, so many times at once, and the variable that may name it.
pub(crate) const ASKER: &str = "ask-for-server";
const ASKED: usize = 4;
const VARIABLE: &str = "TENURE_TEST_POSTGRES";

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(600);

/// Starts servers, tells which, and waits to be killed.
pub(crate) fn own() -> ! {
    let postgres = Postgres::start().expect("PostgreSQL starts");
    let mariadb = MariaDb::start().expect("MariaDB starts");
    let etcd = Etcd::start(1, &Options::default()).expect("etcd starts");
    mariadb.kill().expect("MariaDB is killed");
    #[expect(clippy::print_stdout, reason = "whoever started us reads it")]
    {
        let processes = [postgres.process(), etcd.process(0)];
        for (process, folder) in processes.iter().zip([postgres.dir(), etcd.dirs()[0]]) {
            println!("{} {}", process.expect("it runs"), folder.display());
        }
        // Of a server that is down only the folder is there.
        println!("0 {}", mariadb.dir().display());
        println!();
    }
    thread::sleep(FOREVER);
    unreachable!("the owner was to be killed");
}

/// Asks for the shared server from many threads at once, and tells what each of them got.
#[expect(clippy::print_stdout, reason = "whoever started us reads it")]
pub(crate) fn ask() {
    let urls: Vec<String> = thread::scope(|scope| {
        let asking: Vec<_> = (0..ASKED).map(|_| scope.spawn(tenure_testbed::postgres)).collect();
        asking.into_iter().map(|each| each.join().expect("it starts")).collect()
    });
    urls.iter().for_each(|url| println!("{url}"));
    if answers(&urls[0]) {
        println!("answers");
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("nothing_is_left_when_the_owner_is_killed", killed_owner),
        trial("servers_started_at_once_have_their_own_ports", at_once),
        trial("a_shared_server_is_started_once", shared),
    ]
}

fn killed_owner() -> Result<()> {
    let mut owner = Command::new(std::env::current_exe()?);
    let mut owner = owner.arg(OWNER).stdout(Stdio::piped()).spawn()?;
    let output = BufReader::new(owner.stdout.take().context("its output is piped")?);
    let mut owned = Vec::new();
    for line in output.lines() {
        let line = line?;
        let Some((process, folder)) = line.split_once(' ') else { break };
        owned.push((process.parse::<u32>()?, folder.to_owned()));
    }
    ensure!(owned.len() == 3, "the owner tells of three servers: {owned:?}");
    let running = |&(process, _): &(u32, String)| process != 0 && lives(process);
    ensure!(owned.iter().filter(|each| running(each)).count() == 2);
    ensure!(owned.iter().all(|(_, folder)| Path::new(folder).is_dir()));
    let memory = memory_of(Path::new(&owned[0].1))?;
    ensure!(shared_memory()?.contains(&memory), "PostgreSQL has shared memory");
    owner.kill()?;
    owner.wait()?;
    let processes: Vec<u32> =
        owned.iter().map(|&(process, _)| process).filter(|&process| process != 0).collect();
    let folders: Vec<&Path> = owned.iter().map(|(_, folder)| Path::new(folder)).collect();
    ensure!(gone(&processes, &folders), "{owned:?}");
    ensure!(eventually(|| shared_memory().is_ok_and(|now| !now.contains(&memory))), "{memory} is left");
    Ok(())
}

/// The id of a PostgreSQL server's shared memory.
fn memory_of(folder: &Path) -> Result<String> {
    let file = std::fs::read_to_string(folder.join("data/postmaster.pid"))?;
    let line = file.lines().nth(6).context("the seventh line tells of shared memory")?;
    Ok(line.split_whitespace().last().context("it ends with an id")?.to_owned())
}

/// The ids of all shared memory of this machine.
fn shared_memory() -> Result<Vec<String>> {
    let table = std::fs::read_to_string("/proc/sysvipc/shm")?;
    Ok(table.lines().filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect())
}

fn at_once() -> Result<()> {
    let servers = thread::scope(|scope| {
        let starting: Vec<_> = (0..3).map(|_| scope.spawn(Postgres::start)).collect();
        starting
            .into_iter()
            .map(|each| each.join().expect("starting does not panic"))
            .collect::<Result<Vec<_>>>()
    })?;
    let ports: BTreeSet<u16> = servers.iter().map(Postgres::port).collect();
    let folders: BTreeSet<&Path> = servers.iter().map(Postgres::dir).collect();
    ensure!(ports.len() == 3 && folders.len() == 3, "{ports:?} {folders:?}");
    Ok(())
}

fn shared() -> Result<()> {
    let mut asker = Command::new(std::env::current_exe()?);
    let urls = String::from_utf8(asker.arg(ASKER).env_remove(VARIABLE).output()?.stdout)?;
    let lines: BTreeSet<&str> = urls.lines().collect();
    ensure!(
        urls.lines().count() == ASKED + 1 && lines.len() == 2,
        "all of one server, and that it answers: {urls}"
    );
    ensure!(lines.contains("answers"), "{urls}");
    let url = *lines.last().context("there are two")?;
    ensure!(eventually(|| !answers(url)), "it is gone with the process");
    let named = String::from_utf8(asker.env(VARIABLE, "postgres://elsewhere").output()?.stdout)?;
    ensure!(named.lines().all(|url| url == "postgres://elsewhere") && !named.is_empty(), "{named}");
    Ok(())
}
