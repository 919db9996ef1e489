//! Processes, as the kernel shows them, and waiting for what must happen.

use std::{fs, thread, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tenure::store::Env;

/// How long something may take that must happen: far longer than it does, on a machine that is busy with other things.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// The children of a process.
pub(crate) fn children(of: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>()).collect()
}

/// A process, and all that descends from it.
pub(crate) fn tree(of: i32) -> Vec<i32> {
    let mut all = vec![of];
    let mut at = 0;
    while at < all.len() {
        all.extend(children(all[at]));
        at += 1;
    }
    all
}

/// The arguments of a process; none, if it is gone.
pub(crate) fn arguments(of: i32) -> Vec<String> {
    let all = fs::read(format!("/proc/{of}/cmdline")).unwrap_or_default();
    all.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// All processes that have this text in one of their arguments.
pub(crate) fn with_argument(text: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|id| arguments(*id).iter().any(|word| word.contains(text)))
        .collect()
}

/// Sends a signal. A process that is gone does not need it.
pub(crate) fn send(to: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(to), signal);
}

/// Waits until it is so. Returns whether it became so in this time.
pub(crate) fn within(time: Duration, mut so: impl FnMut() -> bool) -> bool {
    let env = Env::system();
    let start = env.now();
    while !so() {
        if env.now() - start > time {
            return false;
        }
        thread::sleep(LOOK_PAUSE);
    }
    true
}
