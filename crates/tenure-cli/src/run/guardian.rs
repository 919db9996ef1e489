//! The guardian: the process that starts the command, and ends it in time, whatever becomes of `tenure run`.
//!
//! # What it promises
//! - The command runs only until the last moment that it was told of. Then everything of it is killed: its process group, and every process that descends from it,
//!   also those that left the group or lost their parents.
//! - When `tenure run` dies, the command is asked to end, killed after the grace or in time, and only then the session is ended in its name, so that
//!   a successor need not wait for the ttl.
//! - When the guardian itself is killed, the kernel kills the command with it and gives what is left of it to `tenure run`, which sees to the rest.
//!
//! # How
//! It is a program of one thread that waits in one `poll`, for orders, for the end of children, and for time. It asks the kernel to give it every orphan that
//! descends from it, so that "no child is left" means that nothing of the command is. It talks to no database before everything is gone. The signals
//! that terminals and service managers send to whole groups do not end it.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read as _, Write as _},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    process::{Command, ExitCode},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl,
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        wait::{WaitPidFlag, WaitStatus, waitpid},
    },
    unistd::Pid,
};
use tenure::{cluster::will::UNHEARD, store::Env};

use super::{
    kin,
    testament::Testament,
    wire::{Limits, Order, Report, lines, nanos},
};

/// The hidden command that starts one: followed by the numbers of two pipes, the grace in nanoseconds, and the command.
pub(crate) const COMMAND: &str = "guardian";

/// The longest wait. The clock that it follows stands still while the machine is suspended, ours does not.
const STEP: Duration = Duration::from_millis(250);

/// Between two looks at processes that are being killed.
const KILL_PAUSE: Duration = Duration::from_millis(2);

/// Runs the guardian until there is nothing left to do.
pub(crate) fn main(arguments: Vec<OsString>) -> ExitCode {
    match Guardian::new(arguments).and_then(Guardian::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(io::stderr(), "tenure guardian: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Guardian {
    orders: File,
    unread: Vec<u8>,
    reports: File,
    children: SignalFd,
    env: Env,
    command: Vec<OsString>,
    grace: Duration,
    limits: Limits,
    testament: Testament,
    /// The command, from its start until nothing of it is left.
    running: Option<Running>,
    /// Whether `tenure run` is gone.
    orphaned: bool,
}

/// A command, or what is left of it.
struct Running {
    /// The first process, and its group.
    id: Pid,
    /// Whether the first process has ended.
    ended: bool,
    /// Whether everything was asked to end, because nothing may be left.
    asked: bool,
    /// From when on everything is killed, since it was asked to end.
    kill: Option<u64>,
}

impl Running {
    /// The group, as long as it is certain to be the command's: ids of processes that have ended come again.
    fn group(&self) -> Option<Pid> {
        (!self.ended).then_some(self.id)
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group() {
            kin::signal_group(group, signal);
        }
    }
}

impl Guardian {
    fn new(arguments: Vec<OsString>) -> io::Result<Self> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "only `tenure run` starts this");
        let [orders, reports, grace] = arguments
            .first_chunk::<3>()
            .ok_or_else(bad)?
            .each_ref()
            .map(|one| one.to_str().and_then(|text| text.parse::<u64>().ok()).ok_or_else(bad));
        let (orders, reports) = (adopt(orders?, false)?, adopt(reports?, true)?);
        // They are meant for `tenure run`, which forwards them.
        let unheard: SigSet = UNHEARD.into_iter().collect();
        unheard.thread_block()?;
        let child = SigSet::from_iter([Signal::SIGCHLD]);
        child.thread_block()?;
        prctl::set_child_subreaper(true)?;
        // If it is stopped when `tenure run` dies, it must go on.
        prctl::set_pdeathsig(Signal::SIGCONT)?;
        Ok(Self {
            orders,
            unread: Vec::new(),
            reports,
            children: SignalFd::with_flags(&child, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?,
            env: Env::system(),
            command: arguments[3..].to_vec(),
            grace: Duration::from_nanos(grace?),
            limits: Limits::NEVER,
            testament: Testament::default(),
            running: None,
            orphaned: false,
        })
    }

    fn run(mut self) -> io::Result<()> {
        loop {
            self.look();
            if self.orphaned && self.running.is_none() {
                self.testament.carry_out();
                return Ok(());
            }
            self.wait()?;
        }
    }

    fn now(&self) -> u64 {
        nanos(self.env.now().since_start())
    }

    /// Does what time and the loss of `tenure run` demand.
    fn look(&mut self) {
        let now = self.now();
        let (limits, grace) = (self.limits, nanos(self.grace));
        let Some(running) = &mut self.running else { return };
        if !running.asked && (self.orphaned || running.ended || now >= limits.term) {
            let faded = running.kill.is_none() && !running.ended;
            running.asked = true;
            running.kill.get_or_insert(now.saturating_add(grace));
            kin::signal_all(running.group(), Signal::SIGTERM);
            // One that was stopped could not hear it.
            kin::signal_all(running.group(), Signal::SIGCONT);
            if faded {
                self.report(&Report::Fading);
            }
        }
        let Some(running) = &self.running else { return };
        if now >= limits.kill || running.kill.is_some_and(|kill| now >= kill) {
            kin::signal_all(running.group(), Signal::SIGKILL);
        }
        self.reap();
    }

    /// Waits for an order, the end of a child, or the next moment at which something is to be done.
    fn wait(&mut self) -> io::Result<()> {
        let time = match &self.running {
            None => STEP,
            Some(running) => {
                let due = running.kill.map_or(self.limits.term, |kill| kill.min(self.limits.kill));
                Duration::from_nanos(due.saturating_sub(self.now())).clamp(KILL_PAUSE, STEP)
            }
        };
        let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
        let read = PollFlags::POLLIN;
        let mut waits = vec![PollFd::new(self.children.as_fd(), read)];
        if !self.orphaned {
            waits.push(PollFd::new(self.orders.as_fd(), read));
        }
        match poll(&mut waits, timeout) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let woken = |at: usize| waits.get(at).and_then(PollFd::any).unwrap_or(false);
        let (child, order) = (woken(0), woken(1));
        drop(waits);
        if child {
            while let Ok(Some(_)) = self.children.read_signal() {}
        }
        if order {
            self.hear();
        }
        Ok(())
    }

    /// Reads what there is to read; the end of it means that `tenure run` is dead.
    fn hear(&mut self) {
        let mut buffer = [0; 4096];
        match self.orders.read(&mut buffer) {
            Ok(count) if count > 0 => self.unread.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.orphaned = true,
        }
        for line in lines(&mut self.unread) {
            if let Some(order) = Order::parse(&line) {
                self.obey(order);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Store(url) => self.testament.url = Some(url),
            Order::Session { cluster, session } => self.testament.session = Some((cluster, session)),
            Order::Until(limits) => self.limits = limits,
            Order::Start { term } => self.start(term),
            Order::Signal(signal) => {
                if let (Some(running), Ok(signal)) = (&self.running, Signal::try_from(signal)) {
                    running.signal_group(signal);
                }
            }
            Order::Stop { signal, grace } => {
                let kill = self.now().saturating_add(nanos(grace));
                if let (Some(running), Ok(signal)) = (&mut self.running, Signal::try_from(signal)) {
                    running.kill = Some(running.kill.map_or(kill, |before| before.min(kill)));
                    running.signal_group(signal);
                    running.signal_group(Signal::SIGCONT);
                }
            }
        }
    }

    fn start(&mut self, term: Option<u64>) {
        if self.running.is_some() {
            return self.report(&Report::NotStarted("it still runs".to_owned()));
        }
        if self.now() >= self.limits.term {
            return self.report(&Report::NotStarted("the leadership was over before it began".to_owned()));
        }
        let mut launch = Command::new("/proc/self/exe");
        launch.arg(super::launch::COMMAND).arg(std::process::id().to_string()).args(&self.command);
        match term {
            Some(term) => launch.env("TENURE_TERM", term.to_string()),
            None => launch.env_remove("TENURE_TERM"),
        };
        match launch.process_group(0).spawn() {
            Ok(child) => {
                let id = Pid::from_raw(child.id().cast_signed());
                self.running = Some(Running { id, ended: false, asked: false, kill: None });
                self.report(&Report::Started(id.as_raw()));
            }
            Err(error) => self.report(&Report::NotStarted(error.to_string())),
        }
    }

    /// Takes note of every child that has ended.
    fn reap(&mut self) {
        loop {
            let code = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(id, code)) => (id, u8::try_from(code & 0xff).unwrap_or(u8::MAX)),
                Ok(WaitStatus::Signaled(id, signal, _)) => (id, 128_u8.saturating_add(signal as u8)),
                Ok(WaitStatus::StillAlive) => return,
                Ok(_) => continue,
                // No child is left, and with them everything of the command.
                Err(nix::errno::Errno::ECHILD) => {
                    if self.running.take().is_some() {
                        self.report(&Report::Gone);
                    }
                    return;
                }
                Err(_) => return,
            };
            if let Some(running) = &mut self.running
                && running.id == code.0
            {
                running.ended = true;
                self.report(&Report::Exited(code.1));
            }
        }
    }

    fn report(&mut self, report: &Report) {
        // Nobody may be there to read it.
        let _ = self.reports.write_all(report.line().as_bytes());
    }
}

/// The pipe of this number, which was left to us: as a file of our own, that no program we start gets.
fn adopt(number: u64, write: bool) -> io::Result<File> {
    let number = i32::try_from(number).map_err(io::Error::other)?;
    let path = format!("/proc/self/fd/{number}");
    let file = File::options().read(!write).write(write).open(path)?;
    nix::unistd::close(number)?;
    Ok(file)
}
