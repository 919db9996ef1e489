//! What every worker process does, whatever else it does.

use std::{
    io::{BufRead as _, Write as _},
    thread,
    time::Duration,
};

use nix::sys::{prctl, signal::Signal};

/// How long a worker may take to leave, before it just ends.
pub(crate) const LEAVE_TIME: Duration = Duration::from_secs(5);

/// Does this work, as a process that ends with it, or when anything in it panics.
pub(crate) fn run(work: impl Future<Output = ()>) {
    // A worker that is stopped when the test is killed could not see that its input was closed.
    prctl::set_pdeathsig(Signal::SIGCONT).unwrap();
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        std::process::exit(101);
    }));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(work);
    // Nothing that still runs is waited for.
    std::process::exit(0);
}

/// Hears every line of the input, and, as `None`, that it was closed: then it is time to leave.
pub(crate) fn listen(mut hear: impl FnMut(Option<&str>) + Send + 'static) {
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            hear(Some(&line));
        }
        hear(None);
        // Whatever it is that it waits for.
        thread::sleep(2 * LEAVE_TIME);
        std::process::exit(1);
    });
}

pub(crate) fn say(line: &str) {
    // When nobody listens any more, the input is closed as well.
    let _ = writeln!(std::io::stdout(), "{line}");
}
