//! The processes of a command: its group, and all that descends from it.

use std::{collections::HashMap, fs};

use nix::{
    sys::{
        signal::{Signal, kill, killpg},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// Sends a signal to the group of a command.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    // It fails where nobody is left, which is as good.
    let _ = killpg(group, signal);
}

/// Sends a signal to everything that descends from this process: to the group of a command at once, and then to what is not in it. To each only once, since a
/// second signal may mean more than the first.
pub(crate) fn signal_all(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        signal_group(group, signal);
    }
    for (id, process) in descendants(&[]) {
        if group.map(Pid::as_raw) != Some(process.group) {
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
}

/// The children of this process.
pub(crate) fn children() -> Vec<i32> {
    let this = Pid::this().as_raw();
    processes().into_iter().filter(|(_, process)| process.parent == this).map(|(id, _)| id).collect()
}

/// Kills everything that descends from this process, but these children and what descends from them. Returns whether something may be left.
///
/// Nothing is left when nothing was found alive, and nobody had ended since: who starts another process and ends while all are listed is missed with it, but
/// has become a child of ours that has ended.
pub(crate) fn kill_all_but(others: &[i32]) -> bool {
    let all = descendants(others);
    for (id, _) in &all {
        let _ = kill(Pid::from_raw(*id), Signal::SIGKILL);
    }
    let mut ended = false;
    while waitpid(None, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status != WaitStatus::StillAlive) {
        ended = true;
    }
    ended || !all.is_empty()
}

/// What descends from this process and is alive, but for these and what descends from them.
fn descendants(but: &[i32]) -> Vec<(i32, Process)> {
    let (all, this) = (processes(), Pid::this().as_raw());
    let ours = |id: i32| id != this && descends(&all, id, this, but);
    all.iter().filter(|(id, process)| !process.dead && ours(**id)).map(|(id, one)| (*id, *one)).collect()
}

fn descends(all: &HashMap<i32, Process>, mut id: i32, from: i32, but: &[i32]) -> bool {
    // No chain is longer; a cycle can appear where processes end while they are listed.
    for _ in 0..all.len() {
        if id == from {
            return true;
        }
        match all.get(&id).filter(|_| !but.contains(&id)) {
            Some(process) => id = process.parent,
            None => return false,
        }
    }
    false
}

#[derive(Clone, Copy)]
struct Process {
    parent: i32,
    group: i32,
    /// Ended, and only waiting to be reaped.
    dead: bool,
}

/// All processes that can be seen.
fn processes() -> HashMap<i32, Process> {
    let listed = fs::read_dir("/proc").into_iter().flatten().flatten();
    listed
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            Some((id, parse(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// Reads the line that the kernel has of a process. Its name, in parentheses, may contain anything.
fn parse(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X");
    Some(Process { parent: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()?, dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_confuse_the_reading_of_processes() {
        let process = parse("7 (a ) Z 1 (b) S 3 5 5 0").unwrap();
        assert_eq!((process.parent, process.group, process.dead), (3, 5, false));
        assert!(parse("8 (gone) Z 3 5 5 0").unwrap().dead);
        assert!(parse("").is_none());
    }

    #[test]
    fn children_of_children_descend_from_their_ancestors() {
        let process = |parent| Process { parent, group: 1, dead: false };
        let all: HashMap<i32, Process> =
            [(1, process(0)), (2, process(1)), (3, process(2)), (9, process(0))].into();
        assert!(descends(&all, 3, 1, &[]) && descends(&all, 2, 2, &[]));
        assert!(!descends(&all, 9, 1, &[]) && !descends(&all, 4, 1, &[]));
        assert!(!descends(&all, 3, 1, &[2]) && !descends(&all, 2, 1, &[2]));
    }
}
