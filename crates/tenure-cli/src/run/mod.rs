//! `tenure run NAME -- COMMAND`: a command that runs on one node at a time.
//!
//! Three processes: this one holds the leadership; the [guardian] starts the command and ends it in time, whatever becomes of this one; the command itself, which is
//! a process group. What this one promises, it promises through the guardian, and does itself when the guardian is dead.

pub(crate) mod guardian;
pub(crate) mod launch;

mod course;
mod events;
mod guard;
mod kin;
mod options;
mod signals;
mod testament;
mod wire;

use std::{io, time::Duration};

use anyhow::Context as _;
use tenure::{
    cluster::{Cluster, Settings},
    store::{Env, Moment, Name, StoreError},
};
use tenure_singleton::{ElectionOracle, Oracle, Policy, Restart, Seat, Terms, Told};
use tokio::sync::Notify;

pub(crate) use options::RunOptions;

use self::{
    course::{Course, sleep_until},
    events::{Event, Events},
    guard::Guard,
    signals::{Arrived, Signals},
    wire::{Limits, Order, Report},
};
use crate::exit::Exit;

/// How long giving up may take when the store does not answer: then the ttl has to do.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);

/// Runs a command on the leader, until it is done.
pub(crate) async fn run(options: RunOptions) -> anyhow::Result<Exit> {
    let name: Name = options.name.parse().with_context(|| format!("NAME {:?}", options.name))?;
    for (option, text) in [("--node", &options.node()), ("--cluster", &options.store.cluster)] {
        text.parse::<Name>().with_context(|| format!("{option} {text:?}"))?;
    }
    let policy = options.policy()?;
    let mut signals = Signals::new().context("can't listen to signals")?;
    // Before anything else: from here on nothing can happen that it would not notice.
    let mut guard = start_guard(&options, &policy).await?;
    let env = Env::system();
    let (oracle, cluster) = tokio::select! {
        biased;
        signal = signals.stop() => return Ok(Exit::signalled(signal)),
        opened = open(&options, &env, &mut guard) => opened?,
    };
    let mut runner = Runner {
        seat: Seat::new(name, oracle, env.clone()),
        events: Events::new(&options),
        guard,
        env,
        policy,
        signals,
        cluster,
        options,
    };
    let exit = runner.run().await;
    runner.end().await;
    exit
}

/// The oracle, and our part in the cluster if it is one of ours.
async fn open(
    options: &RunOptions,
    env: &Env,
    guard: &mut Guard,
) -> anyhow::Result<(Box<dyn Oracle>, Option<Cluster>)> {
    if let Some(url) = &options.oracle {
        return Ok((tenure_oracles::open(url, &options.name, &options.node())?, None));
    }
    let url = &options.store.store;
    let mut settings = Settings::new(&options.store.cluster, &options.node())?.with_ttl(options.ttl);
    // The death of this process proves nothing about the command: the guardian ends the session, when nothing of the command is left.
    settings.proof_of_death = false;
    settings.validate()?;
    let store = tenure::open(url).await.map_err(|error| {
        let wrong = matches!(error, StoreError::Invalid(_));
        let exit = if wrong { Exit::Command(crate::WRONG) } else { Exit::Unavailable };
        anyhow::Error::new(error).context(exit.context("can't open the store"))
    })?;
    let cluster = Cluster::join(store, settings)
        .await
        .with_context(|| Exit::Unavailable.context("can't join the cluster"))?;
    brief(guard, url, &cluster)?;
    let election = cluster.election(&options.name)?;
    Ok((Box::new(ElectionOracle::new(election, options.priority, env.clone())), Some(cluster)))
}

async fn start_guard(options: &RunOptions, policy: &Policy) -> anyhow::Result<Guard> {
    let start = async || {
        let guard = Guard::start(&options.command, &options.variables(), policy.grace)?;
        guard.ready().await.map(|()| guard)
    };
    start().await.with_context(|| Exit::Unguarded.context("can't start the guardian"))
}

/// Tells a guardian which session to end when this process is dead, and where.
fn brief(guard: &mut Guard, url: &str, cluster: &Cluster) -> io::Result<()> {
    guard.tell(&Order::Store(url.to_owned()))?;
    tell_session(guard, cluster)
}

fn tell_session(guard: &mut Guard, cluster: &Cluster) -> io::Result<()> {
    guard.tell(&Order::Session {
        cluster: cluster.settings().cluster.to_string(),
        session: cluster.session().id().to_string(),
    })
}

struct Runner {
    seat: Seat,
    guard: Guard,
    events: Events,
    env: Env,
    policy: Policy,
    signals: Signals,
    cluster: Option<Cluster>,
    options: RunOptions,
}

/// What came of waiting for leadership.
enum Waited {
    /// It is ours.
    Leads(Terms),
    /// It is to be given up.
    Over(Exit),
    /// The guardian is gone.
    Unguarded(io::Error),
}

/// How a time as the leader ended. Nothing of the command is left.
enum Ended {
    /// The command ended by itself.
    Exited(u8),
    /// It was not started.
    NotStarted(String),
    /// Leadership was lost, or nearly.
    Lost,
    /// An operator asked us to give leadership up, to this node if one was named.
    Asked(Option<Name>),
    /// Somebody asked us to end, by this signal; the command ended with this code.
    Stopped(u8),
    /// The guardian is gone; whether somebody had asked us to end before.
    Unguarded { error: io::Error, stopped: bool },
}

impl Runner {
    async fn run(&mut self) -> anyhow::Result<Exit> {
        let mut failures = 0;
        loop {
            let (began, ended) = match self.wait().await {
                Waited::Leads(terms) => (self.env.now(), self.lead(&terms).await),
                Waited::Over(exit) => return Ok(exit),
                Waited::Unguarded(error) => (self.env.now(), self.unguarded(error, false).await),
            };
            let mut heir = None;
            let again = match ended {
                Ended::Exited(code) => {
                    self.events.tell(&Event::Exited { code });
                    let failed = code != 0;
                    let restart = match self.policy.restart {
                        Restart::Always => true,
                        Restart::OnFailure => failed,
                        Restart::Never => false,
                    };
                    if !restart {
                        return Ok(Exit::Command(code));
                    }
                    true
                }
                Ended::NotStarted(why) => {
                    self.events.tell(&Event::NotStarted { why });
                    true
                }
                Ended::Lost => {
                    self.events.tell(&Event::Lost);
                    if self.policy.restart == Restart::Never {
                        return Ok(Exit::Lost);
                    }
                    failures = 0;
                    false
                }
                Ended::Asked(to) => {
                    if self.policy.restart == Restart::Never {
                        self.release(to).await;
                        return Ok(Exit::Lost);
                    }
                    (heir, failures) = (to, 0);
                    false
                }
                Ended::Stopped(code) => return Ok(Exit::Command(code)),
                Ended::Unguarded { error, stopped } => {
                    self.replace_guard(error, stopped).await?;
                    true
                }
            };
            if again {
                let steady = self.env.now() - began >= self.policy.steady;
                failures = if steady { 1 } else { failures + 1 };
            }
            // Others get their chance, and a command that fails at once does not become a loop.
            self.release(heir).await;
            if again && let Some(exit) = self.pause(self.policy.pause(failures)).await {
                return Ok(exit);
            }
        }
    }

    /// Waits until we lead, for as long as the options allow.
    async fn wait(&mut self) -> Waited {
        let (limit, no_wait) = (self.options.patience(), self.options.no_wait);
        let Self { seat, events, signals, env, guard, .. } = self;
        events.tell(&Event::Waiting);
        let late = async {
            match limit {
                Some(limit) => env.sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let refused = Notify::new();
        let mut told = Waiting { events, refused: &refused };
        tokio::select! {
            biased;
            terms = seat.win(&mut told) => Waited::Leads(terms),
            () = late => Waited::Over(Exit::NotLeading),
            () = refused.notified(), if no_wait => Waited::Over(Exit::NotLeading),
            signal = signals.stop() => Waited::Over(Exit::signalled(signal)),
            error = guard.lost() => Waited::Unguarded(error),
        }
    }

    /// Waits before the next try.
    async fn pause(&mut self, time: Duration) -> Option<Exit> {
        tokio::select! {
            biased;
            signal = self.signals.stop() => Some(Exit::signalled(signal)),
            () = self.env.sleep(time) => None,
        }
    }

    /// Runs the command once. When this returns, nothing of it is left.
    async fn lead(&mut self, terms: &Terms) -> Ended {
        self.events.tell(&Event::Leading { term: terms.term() });
        let mut course = Course::default();
        match self.supervise(terms, &mut course).await {
            Ok(ended) => ended,
            Err(error) => self.unguarded(error, course.stopped).await,
        }
    }

    /// Ends whatever a guardian has left that is gone, or as good as gone.
    async fn unguarded(&mut self, error: io::Error, stopped: bool) -> Ended {
        self.guard.kill(&self.env).await;
        Ended::Unguarded { error, stopped }
    }

    /// Starts another guardian, for the next start of the command.
    ///
    /// # Errors
    /// When nothing is to be started again; or when it could not be done.
    async fn replace_guard(&mut self, error: io::Error, stopped: bool) -> anyhow::Result<()> {
        if stopped || self.policy.restart == Restart::Never {
            return Err(anyhow::Error::new(error).context(Exit::Unguarded.context("the guardian is gone")));
        }
        self.events.tell(&Event::Unguarded { reason: error.to_string() });
        self.guard = start_guard(&self.options, &self.policy).await?;
        if let Some(cluster) = &self.cluster {
            // It is young: should it be dead already, the next start finds out.
            let _ = brief(&mut self.guard, &self.options.store.store, cluster);
        }
        Ok(())
    }

    async fn supervise(&mut self, terms: &Terms, course: &mut Course) -> io::Result<Ended> {
        let Self { seat, guard, events, env, policy, signals, cluster, .. } = self;
        if let Some(cluster) = cluster {
            // It may be another one than at the last start.
            tell_session(guard, cluster)?;
        }
        // The clock first: this process may be stopped between the two.
        let (now, left) = (env.now(), terms.remaining());
        // Somebody else's oracle may grant for less than the ttl: more than a third would leave too little for the work, and for a refresh that fails once.
        let grace = policy.grace.min(left / 3);
        let until = (left != Duration::MAX).then(|| now.after(left));
        guard.tell(&Order::Until(limits(until, grace)))?;
        guard.tell(&Order::Start { term: terms.term() })?;
        *course = Course::new(now, until);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let mut relay = Relay(tell);
        let mut asked = seat.asked();
        let mut keep = std::pin::pin!(seat.keep(&mut relay));
        loop {
            tokio::select! {
                biased;
                report = guard.report() => {
                    course.doubted = false;
                    match report? {
                        Report::Started(id) => {
                            course.start_by = None;
                            events.tell(&Event::Started { id });
                        }
                        Report::NotStarted(why) => return Ok(Ended::NotStarted(why)),
                        Report::Fading => course.lost = true,
                        Report::Exited(code) => course.code = code,
                        Report::Gone => return Ok(course.ended()),
                    }
                }
                () = &mut keep, if !course.over => {
                    (course.over, course.lost) = (true, true);
                    events.tell(&Event::Stopping);
                    guard.tell(&Order::Stop { signal: nix::libc::SIGTERM, grace: Duration::ZERO })?;
                    course.stop_by = Some(env.now());
                }
                to = &mut asked, if course.asked.is_none() && course.stop_by.is_none() => {
                    events.tell(&Event::Asked { to: to.as_ref().map(Name::to_string) });
                    course.asked = Some(to);
                    events.tell(&Event::Stopping);
                    guard.tell(&Order::Stop { signal: nix::libc::SIGTERM, grace })?;
                    course.stop_by = Some(env.now().after(grace));
                }
                Some(until) = told.recv() => {
                    course.until = until;
                    guard.tell(&Order::Until(limits(until, grace)))?;
                }
                arrived = signals.next() => match arrived {
                    Arrived::Stop(signal) => {
                        course.stopped = true;
                        events.tell(&Event::Stopping);
                        guard.tell(&Order::Stop { signal, grace })?;
                        course.stop_by = Some(env.now().after(grace));
                    }
                    Arrived::Other(signal) => guard.tell(&Order::Signal(signal))?,
                },
                () = sleep_until(env, course.overdue(grace)) => {
                    if course.doubted {
                        return Err(io::Error::other("the guardian did not do its work in time"));
                    }
                    // If this process was stopped, there are reports that it has not seen yet: the runtime looks for them now.
                    course.doubted = true;
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    async fn release(&mut self, to: Option<Name>) {
        match self.seat.release(to.as_ref().map(Name::as_str), RELEASE_PATIENCE).await {
            Ok(false) => {}
            Ok(true) => self.events.tell(&Event::Released),
            Err(reason) => self.events.tell(&Event::Unknown { reason }),
        }
    }

    /// Gives everything up. Nothing of the command is left.
    async fn end(mut self) {
        self.release(None).await;
        if let Some(cluster) = &self.cluster {
            // If the store does not answer, the ttl has to do.
            let _ = self.env.timeout(RELEASE_PATIENCE, cluster.leave()).await;
        }
        self.guard.dismiss();
    }
}

fn limits(until: Option<Moment>, grace: Duration) -> Limits {
    until.map_or(Limits::NEVER, |until| Limits::before(until, grace))
}

/// Passes on how long the leadership lasts.
struct Relay(tokio::sync::mpsc::UnboundedSender<Option<Moment>>);

impl Told for Relay {
    fn extended(&mut self, until: Option<Moment>) {
        // Whoever listened has ended.
        let _ = self.0.send(until);
    }
}

/// Tells of what is waited for.
struct Waiting<'a> {
    events: &'a Events,
    /// Is told when another leads.
    refused: &'a Notify,
}

impl Told for Waiting<'_> {
    fn denied(&mut self, holder: Option<String>) {
        self.events.tell(&Event::Denied { holder });
        self.refused.notify_one();
    }

    fn unknown(&mut self, reason: String) {
        self.events.tell(&Event::Unknown { reason });
    }
}
