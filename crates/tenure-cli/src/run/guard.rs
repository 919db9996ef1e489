//! [`Guard`]: the guardian, as `tenure run` sees it.

use std::{
    ffi::OsString,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd as _},
        unix::process::CommandExt as _,
    },
    process::{Child, Command},
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, OFlag, fcntl},
    sys::prctl,
    unistd::pipe2,
};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::{
    guardian, kin,
    wire::{Order, Report, lines, nanos},
};

/// Between two looks at a command that is being killed.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// A running guardian.
#[derive(Debug)]
pub(crate) struct Guard {
    process: Child,
    orders: Sender,
    reports: Receiver,
    unread: Vec<u8>,
    heard: std::collections::VecDeque<Report>,
    /// Whether something of the command may be left.
    busy: bool,
    /// Children that this process had already, as whoever became it may have left some.
    others: Vec<i32>,
}

impl Guard {
    /// Starts a guardian for a command, which will have these variables in its environment.
    pub(crate) fn start(
        command: &[OsString],
        variables: &[(&str, String)],
        grace: Duration,
    ) -> io::Result<Self> {
        // Both ends are closed in whatever else is started; the guardian's own are opened for it alone, before there is any other thread or child.
        let (their_orders, orders) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let (reports, their_reports) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        for end in [their_orders.as_fd(), their_reports.as_fd()] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::empty()))?;
        }
        let others = kin::children();
        // What is left of a command whose guardian is dead becomes ours.
        prctl::set_child_subreaper(true)?;
        let process = Command::new("/proc/self/exe")
            .arg(guardian::COMMAND)
            .arg(their_orders.as_raw_fd().to_string())
            .arg(their_reports.as_raw_fd().to_string())
            .arg(nanos(grace).to_string())
            .args(command)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            // Ctrl-C, and whoever kills our group, must leave it alive.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            process,
            orders: Sender::from_owned_fd(orders)?,
            reports: Receiver::from_owned_fd(reports)?,
            unread: Vec::new(),
            heard: std::collections::VecDeque::new(),
            busy: false,
            others,
        })
    }

    /// Returns when it can be told something. The runtime must have looked at the pipe once.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        self.orders.writable().await
    }

    /// Tells it something. It never waits: a guardian that does not read is as good as dead.
    ///
    /// # Errors
    /// When it is dead or does not read.
    pub(crate) fn tell(&mut self, order: &Order) -> io::Result<()> {
        self.busy |= matches!(order, Order::Start { .. });
        let line = order.line();
        match self.orders.try_write(line.as_bytes()) {
            Ok(count) if count == line.len() => Ok(()),
            Ok(_) => Err(ErrorKind::WriteZero.into()),
            Err(error) => Err(error),
        }
    }

    /// What it reports next; an error when it is dead.
    ///
    /// # Cancel safety
    /// No part of a report is lost.
    pub(crate) async fn report(&mut self) -> io::Result<Report> {
        loop {
            if let Some(report) = self.heard.pop_front() {
                self.busy &= !matches!(report, Report::NotStarted(_) | Report::Gone);
                return Ok(report);
            }
            self.reports.readable().await?;
            let mut buffer = [0; 1024];
            match self.reports.try_read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.unread.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            self.heard.extend(lines(&mut self.unread).iter().filter_map(|line| Report::parse(line)));
        }
    }

    /// Returns when it is dead, while nothing runs of which it could tell something else.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub(crate) async fn lost(&mut self) -> io::Error {
        loop {
            if let Err(error) = self.report().await {
                return error;
            }
        }
    }

    /// Ends whatever is left, without the guardian's help: it is dead, or does not do its work. Returns when nothing lives.
    pub(crate) async fn kill(&mut self, env: &tenure::store::Env) {
        // The kernel kills the command with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
        while kin::kill_all_but(&self.others) {
            env.sleep(KILL_PAUSE).await;
        }
        self.busy = false;
    }

    /// Lets it end, with nothing left to do.
    pub(crate) fn dismiss(mut self) {
        debug_assert!(!self.busy, "it would do its duty");
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
