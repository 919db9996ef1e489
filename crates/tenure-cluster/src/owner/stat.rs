//! [`Stat`]: what the kernel tells about a process.

use std::{fs, num::NonZero};

/// The parts of `/proc/ID/stat` that tell whether a process lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    state: u8,
    threads: u64,
    /// In ticks since the boot, by the time namespace of whoever reads. Zero, which only the kernel's own have, is taken for unknown.
    pub(super) started: Option<NonZero<u64>>,
}

impl Stat {
    /// What `/proc` shows of the process with this id, if it shows anything.
    pub(super) fn of(process: i32) -> Option<Self> {
        Self::parse(&fs::read(format!("/proc/{process}/stat")).ok()?)
    }

    /// What `/proc` shows of this process, if it is the `/proc` of our own pid namespace. Another's has other processes under the same ids.
    pub(super) fn of_this_process() -> Option<Self> {
        let status = fs::read(PROC_SELF_STATUS).ok()?;
        is_innermost(&String::from_utf8_lossy(&status), std::process::id())
            .then(|| fs::read("/proc/self/stat").ok())
            .flatten()
            .and_then(|stat| Self::parse(&stat))
    }

    /// Whether the process has ended with all its threads. Zero threads are no evidence: a process that replaces its program from another
    /// than its first thread shows them for an instant.
    pub(super) fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads == 1
    }

    /// The second field is the program's name in parentheses, and may contain anything, parentheses included.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|&byte| byte == b')')?;
        let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // Numbered from 1 by those who document them, and these start with the third.
        let field = |number: usize| fields.get(number - 3).copied();
        let [state] = field(3)?.as_bytes() else { return None };
        Some(Self {
            state: *state,
            threads: field(20)?.parse().ok()?,
            started: NonZero::new(field(22)?.parse().ok()?),
        })
    }
}

const PROC_SELF_STATUS: &str = "/proc/self/status";

/// Whether this status of a process was shown by the `/proc` of its own pid namespace. `NSpid` lists its ids from the namespace
/// that `/proc` shows down to its own.
fn is_innermost(status: &str, process: u32) -> bool {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let ids: Option<Vec<&str>> = ids.map(|ids| ids.split_ascii_whitespace().collect());
    ids.is_some_and(|ids| ids == [process.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(name: &str, state: &str, threads: u64, started: u64) -> String {
        let between = "1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0";
        format!("42 ({name}) {state} {between} {threads} 0 {started} 3000000 200 18446744073709551615 1 1\n")
    }

    #[test]
    fn names_of_programs_may_contain_anything() {
        for name in ["node", "a b", ") Z 1", "((", "", ") ) Z", "new\nline", "42 (x) Z 1 1"] {
            let found = Stat::parse(stat(name, "S", 7, 12345).as_bytes()).unwrap();
            assert_eq!(found, Stat { state: b'S', threads: 7, started: NonZero::new(12345) }, "{name:?}");
        }
        let bytes = stat("?", "Z", 1, 5).replace('?', "\u{1}").into_bytes();
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
        assert!(Stat::parse(&bytes).unwrap().has_ended(), "not UTF-8");
    }

    #[test]
    fn what_is_cut_short_is_nothing() {
        let whole = stat("node", "S", 7, 12345);
        let start = whole.find("12345").unwrap();
        for length in 0..start {
            assert_eq!(Stat::parse(&whole.as_bytes()[..length]), None, "{length}");
        }
        assert_eq!(Stat::parse(stat("node", "S", 1, 0).as_bytes()).unwrap().started, None);
    }

    #[test]
    fn only_a_zombie_without_other_threads_has_ended() {
        let ended =
            |state: &str, threads| Stat::parse(stat("n", state, threads, 5).as_bytes()).unwrap().has_ended();
        assert!(ended("Z", 1) && ended("X", 1));
        assert!(!ended("Z", 2) && !ended("Z", 0) && !ended("S", 1) && !ended("D", 1) && !ended("T", 1));
    }

    #[test]
    fn the_proc_of_an_outer_namespace_is_told_apart() {
        assert!(is_innermost("Name:\tx\nNSpid:\t42\nNSpgid:\t7\n", 42));
        assert!(!is_innermost("NSpid:\t42\t7\n", 42), "shown by an outer one");
        assert!(!is_innermost("NSpid:\t42\t42\n", 42));
        assert!(
            !is_innermost("NSpid:\t41\n", 42) && !is_innermost("Pid:\t42\n", 42) && !is_innermost("", 42)
        );
        assert!(Stat::of_this_process().is_some());
    }
}
