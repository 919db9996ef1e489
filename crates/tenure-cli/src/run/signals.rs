//! [`Signals`]: what this process is sent, for the command.

use std::io;

use nix::libc::{SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signals that end the command, and us with it.
const STOP: [i32; 3] = [SIGINT, SIGTERM, SIGQUIT];

/// Signals that are only passed on.
const OTHER: [i32; 6] = [SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT];

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// One that ends the command.
    Stop(i32),
    /// One that is passed on.
    Other(i32),
}

/// The signals that this process listens to.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(i32, Signal)>);

impl Signals {
    /// Listens from now on. What whoever started us has us ignore, as `nohup` does, is ignored by the command too.
    pub(crate) fn new() -> io::Result<Self> {
        // Nobody listens to this one, but who ignores it does not learn how children end; and neither would the guardian.
        drop(signal(SignalKind::child())?);
        let ignored = ignored()?;
        let heard = STOP.into_iter().chain(OTHER).filter(|number| ignored & (1 << (number - 1)) == 0);
        heard
            .map(|number| Ok((number, signal(SignalKind::from_raw(number))?)))
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// The next signal. There may be none ever, if all are ignored.
    ///
    /// # Cancel safety
    /// None is lost.
    pub(crate) async fn next(&mut self) -> Arrived {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(context).is_ready() {
                    let stop = STOP.contains(number);
                    return std::task::Poll::Ready(if stop {
                        Arrived::Stop(*number)
                    } else {
                        Arrived::Other(*number)
                    });
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The next one that is to end us; the others have nobody to be passed on to.
    pub(crate) async fn stop(&mut self) -> i32 {
        loop {
            if let Arrived::Stop(number) = self.next().await {
                return number;
            }
        }
    }
}

/// The signals that this process ignores: a bit for each, from the lowest.
fn ignored() -> io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    Ok(line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default())
}
