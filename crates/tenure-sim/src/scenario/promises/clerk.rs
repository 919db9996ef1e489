//! [`Clerk`]: servers that do a bit of everything, and write it down.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_server::{
    Context, EffectId, Failure, Fold, Locked, LockedRequest, Policy, ReplyTo, Server, State, Timer,
};
use tenure_store::Env;

use crate::invariant::{Deed, Done, Line};

/// The kind of servers that are called `ACCOUNTS`, and of all others.
pub(super) type Account = Clerk<false>;
pub(super) type Vault = Clerk<true>;

/// All servers: kind and name. The last one is deleted now and then.
pub(super) const SERVERS: [(&str, &str); 4] =
    [(Account::KIND, "ann"), (Account::KIND, "bob"), (Vault::KIND, "safe"), (Vault::KIND, "tent")];

/// Those that stay.
pub(super) const STAYING: usize = 3;

/// For how long answers are kept under idempotency keys, and dead letters: longer than there is trouble.
pub(super) const ANSWERS_KEPT: Duration = Duration::from_secs(40);

/// What clerks know of the world outside.
#[derive(Clone)]
pub(super) struct Outside {
    pub(super) env: Env,
    pub(super) done: Arc<Mutex<Done>>,
    /// Whether what always failed does so no more.
    pub(super) cured: Arc<AtomicBool>,
}

/// Serves one of two kinds, which do the same.
pub(super) struct Clerk<const IS_VAULT: bool>(pub(super) Outside);

/// What is sent: a name, and what is to be done besides writing it down.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Say {
    Note(String),
    /// The same, past the queue.
    Urgent(String),
    /// It is written down by locked work, which takes so many milliseconds.
    Lock(String, u64),
    /// It gives something to another server; later, if there is a delay.
    Give {
        name: String,
        to: usize,
        amount: i64,
        delay_ms: Option<u64>,
    },
    /// Something that another server has given.
    Take {
        name: String,
        from: String,
        amount: i64,
        later: bool,
    },
    /// It sets a timer, which sends `Fire`.
    Arm(String, u64),
    /// It cancels the timer of the second name.
    Disarm(String, String),
    Fire(String),
    /// It has effects.
    Cause(String),
    /// It fails until the world is cured.
    Poison(String),
    /// It is answered later, by whoever wants to.
    Ask(String),
    /// It answers the call of the second name.
    Answer(String, String),
    /// It ends the server.
    End,
}

/// An answer: where the message was written down, or who gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reply {
    Place(usize),
    Given(String),
}

/// An effect: the message, and the run of its callback.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Deliver {
    name: String,
    run: u64,
}

#[derive(Default, State)]
pub(super) struct Page {
    pub(super) lines: Vec<Line>,
    pub(super) balance: i64,
    /// Calls that are to be answered.
    pub(super) asked: BTreeMap<String, ReplyTo<Reply>>,
    timers: BTreeMap<String, Timer>,
    /// The tokens of all locked work that was folded.
    pub(super) tokens: Vec<u64>,
}

impl Page {
    /// Where the last of the lines is that senders have sent.
    fn place(&self) -> Option<Reply> {
        let own = self.lines.iter().filter(|line| !line.deed.is_from_server()).count();
        Some(Reply::Place(own.saturating_sub(1)))
    }
}

impl<const IS_VAULT: bool> Clerk<IS_VAULT> {
    fn write(page: &mut Page, name: &str, deed: Deed, run: u64, now: Duration) -> Option<Reply> {
        let at_ms = u64::try_from(now.as_millis()).expect("a time of this age");
        page.lines.push(Line { name: name.to_owned(), deed, run, at_ms });
        page.place()
    }

    fn handle(
        &self,
        page: &mut Page,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Reply>, Failure> {
        let (now, run) = (context.now(), self.0.env.random_u64());
        let write = |page: &mut Page, name: &str, deed| Self::write(page, name, deed, run, now);
        Ok(match say {
            Say::Note(name) => write(page, name, Deed::Noted),
            Say::Urgent(name) => write(page, name, Deed::Urgent),
            Say::Lock(..) => {
                context.lock()?;
                None
            }
            Say::Give { name, to, amount, delay_ms } => {
                let (_, id) = SERVERS[*to];
                let (from, later) = (context.id().to_string(), delay_ms.is_some());
                let take = Say::Take { name: name.clone(), from, amount: *amount, later };
                send(context, *to, delay_ms.map(Duration::from_millis), &take)?;
                page.balance -= amount;
                write(page, name, Deed::Gave { to: id.to_owned(), amount: *amount, later })
            }
            Say::Take { name, from, amount, later } => {
                page.balance += amount;
                write(page, name, Deed::Took { from: from.clone(), amount: *amount, later: *later })
            }
            Say::Arm(name, delay_ms) => {
                let (id, delay) = (context.id().to_string(), Duration::from_millis(*delay_ms));
                let timer = context.cast_after::<Self>(&id, delay, &Say::Fire(name.clone()))?;
                let at_ms = u64::try_from(timer.at().as_millis())?;
                page.timers.insert(name.clone(), timer);
                write(page, name, Deed::Armed(at_ms))
            }
            Say::Disarm(name, armed) => {
                if let Some(timer) = page.timers.remove(armed) {
                    context.cancel(&timer);
                }
                write(page, name, Deed::Disarmed(armed.clone()))
            }
            Say::Fire(name) => {
                page.timers.remove(name);
                write(page, name, Deed::Fired)
            }
            Say::Cause(name) => {
                context.effect(&Deliver { name: name.clone(), run })?;
                let (outside, name) = (self.0.clone(), name.clone());
                let answer = write(page, &name, Deed::Caused);
                context.after_commit(async move {
                    let now = outside.env.unix_time();
                    outside.done.lock().follows(&name, run, now);
                });
                answer
            }
            Say::Poison(name) => {
                write(page, name, Deed::Noted);
                if !self.0.cured.load(Ordering::SeqCst) {
                    return Err(Failure::new(format!("{name} is poison")));
                }
                page.place()
            }
            Say::Ask(name) => {
                if let Some(to) = context.reply_to() {
                    page.asked.insert(name.clone(), to);
                }
                write(page, name, Deed::Noted);
                None
            }
            Say::Answer(name, asked) => {
                if let Some(to) = page.asked.remove(asked) {
                    context.reply(&to, &Reply::Given(name.clone()))?;
                }
                write(page, name, Deed::Noted)
            }
            Say::End => {
                context.delete();
                page.place()
            }
        })
    }
}

/// Sends to one of all servers.
fn send<S: Server>(
    context: &mut Context<'_, S>,
    to: usize,
    delay: Option<Duration>,
    say: &Say,
) -> Result<(), Failure> {
    let (kind, id) = SERVERS[to];
    match (kind == Vault::KIND, delay) {
        (false, None) => context.cast::<Account>(id, say)?,
        (true, None) => context.cast::<Vault>(id, say)?,
        (false, Some(delay)) => drop(context.cast_after::<Account>(id, delay, say)?),
        (true, Some(delay)) => drop(context.cast_after::<Vault>(id, delay, say)?),
    }
    Ok(())
}

impl<const IS_VAULT: bool> Server for Clerk<IS_VAULT> {
    const KIND: &'static str = if IS_VAULT { "vault" } else { "account" };
    // So many attempts that only poison becomes a dead letter, and so short pauses that it does before the trouble is over.
    const POLICY: Policy = Policy {
        attempts_max: 6,
        retry_first: Duration::from_millis(20),
        retry_most: Duration::from_millis(200),
        answers_kept: ANSWERS_KEPT,
        dead_kept: ANSWERS_KEPT,
        ..Policy::DEFAULT
    };
    type State = Page;
    type Call = Say;
    type Reply = Reply;
    type Cast = Say;
    type Effect = Deliver;

    fn handle_call(
        &self,
        page: &mut Page,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Reply>, Failure> {
        self.handle(page, say, context)
    }

    fn handle_cast(
        &self,
        page: &mut Page,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.handle(page, say, context).map(|_| ())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        let (LockedRequest::Call(say) | LockedRequest::Cast(say)) = &locked.request;
        let Say::Lock(name, time_ms) = &**say else { return Err(Failure::new("this one does not lock")) };
        let (name, token) = (name.clone(), locked.token());
        self.0.env.sleep(Duration::from_millis(*time_ms)).await;
        let run = self.0.env.random_u64();
        Ok(Fold::new(move |page: &mut Page, context: &mut Context<'_, Self>| {
            page.tokens.push(token);
            Ok(Self::write(page, &name, Deed::Noted, run, context.now()))
        }))
    }

    async fn handle_effect(&self, effect: Deliver, id: EffectId) -> Result<(), Failure> {
        let (Outside { env, done, .. }, Deliver { name, run }) = (&self.0, effect);
        done.lock().tries(&name, run, id, env.unix_time());
        env.sleep(env.random_time(Duration::from_millis(100))).await;
        if env.chance(0.3) {
            return Err(Failure::new("the world was not in the mood"));
        }
        done.lock().does(&name, run);
        Ok(())
    }
}
