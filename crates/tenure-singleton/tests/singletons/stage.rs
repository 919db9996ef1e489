//! An oracle that says what a test wants it to, and children that keep a diary.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_singleton::{Answer, Event, Grant, Mandate, Oracle, Policy, Singleton, SingletonBuilder, Standby};
use tenure_store::{Env, Moment, latest};

/// What the oracle says from now on.
#[derive(Clone, Debug)]
pub(crate) enum Mood {
    Grant(Duration),
    Term(Duration, u64),
    Deny(Duration),
    /// Denied, without a time to ask again.
    DenyForGood,
    Unknown,
    /// It does not answer at all.
    Hang,
}

/// What was asked of it, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Claim,
    Refresh,
    Abdicate,
}

/// The oracle, as the test holds it.
#[derive(Clone)]
pub(crate) struct Script {
    mood: Arc<latest::Sender<Mood>>,
    asked: Arc<Mutex<Vec<(Asked, Moment)>>>,
    signals: Arc<latest::Sender<u64>>,
    env: Env,
}

impl Script {
    pub(crate) fn new(env: &Env, mood: Mood) -> Self {
        Self {
            mood: Arc::new(latest::Sender::new(mood)),
            asked: Arc::default(),
            signals: Arc::new(latest::Sender::new(0)),
            env: env.clone(),
        }
    }

    pub(crate) fn says(&self, mood: Mood) {
        self.mood.send_replace(mood);
    }

    /// Lets the oracle tell that it is worth another question.
    pub(crate) fn signal(&self) {
        self.signals.send_modify(|count| *count += 1);
    }

    pub(crate) fn count(&self, what: Asked) -> usize {
        self.asked.lock().iter().filter(|(asked, _)| *asked == what).count()
    }

    pub(crate) fn when(&self, what: Asked) -> Vec<Moment> {
        self.asked.lock().iter().filter(|(asked, _)| *asked == what).map(|(_, when)| *when).collect()
    }

    pub(crate) fn oracle(&self) -> Scripted {
        Scripted { script: self.clone(), signals: self.signals.subscribe() }
    }

    async fn answer(&self, asked: Asked) -> Answer {
        self.asked.lock().push((asked, self.env.now()));
        let mut mood = self.mood.subscribe();
        // One that hangs may be cured.
        let _ = mood.wait_for(|mood| !matches!(mood, Mood::Hang)).await;
        let mood = mood.borrow().clone();
        match mood {
            Mood::Grant(time) => Answer::Granted(Grant::lasting(time)),
            Mood::Term(time, term) => Answer::Granted(Grant::lasting(time).with_term(term)),
            Mood::Deny(time) => Answer::denied(time),
            Mood::DenyForGood => Answer::Denied { retry_after: None, holder: Some("another".into()) },
            Mood::Unknown | Mood::Hang => Answer::unknown("the line is dead"),
        }
    }
}

pub(crate) struct Scripted {
    script: Script,
    signals: latest::Receiver<u64>,
}

#[async_trait]
impl Oracle for Scripted {
    async fn claim(&mut self) -> Answer {
        self.script.answer(Asked::Claim).await
    }

    async fn refresh(&mut self) -> Answer {
        self.script.answer(Asked::Refresh).await
    }

    async fn abdicate(&mut self, _successor: Option<&str>) -> Answer {
        self.script.asked.lock().push((Asked::Abdicate, self.script.env.now()));
        Answer::Denied { retry_after: None, holder: None }
    }

    async fn signal(&mut self) {
        if self.signals.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How a child behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Runs until it is cancelled, and ends at once.
    Good,
    /// Runs until it is cancelled, and needs so many milliseconds.
    Slow(u64),
    /// Does not listen.
    Deaf,
    /// Fails after so many milliseconds.
    Fails(u64),
    /// Returns after so many milliseconds.
    Returns(u64),
    /// Panics at once.
    Panics,
}

/// What became of a child.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) start: Moment,
    pub(crate) cancelled: Option<Moment>,
    pub(crate) end: Option<Moment>,
    /// How much was left of the mandate when it ended.
    pub(crate) left: Duration,
    pub(crate) term: Option<u64>,
}

/// All that children went through.
#[derive(Clone)]
pub(crate) struct Diary {
    lives: Arc<Mutex<Vec<Life>>>,
    pub(crate) followers: Arc<AtomicUsize>,
    pub(crate) followers_now: Arc<AtomicUsize>,
    env: Env,
}

/// Writes the end of a life, however it comes.
struct Pen {
    diary: Diary,
    index: usize,
    mandate: Mandate,
}

impl Drop for Pen {
    fn drop(&mut self) {
        let life = &mut self.diary.lives.lock()[self.index];
        (life.end, life.left) = (Some(self.diary.env.now()), self.mandate.remaining());
    }
}

impl Diary {
    pub(crate) fn new(env: &Env) -> Self {
        let (lives, env) = (Arc::default(), env.clone());
        Self { lives, followers: Arc::default(), followers_now: Arc::default(), env }
    }

    pub(crate) fn lives(&self) -> Vec<Life> {
        self.lives.lock().clone()
    }

    pub(crate) fn running(&self) -> usize {
        self.lives.lock().iter().filter(|life| life.end.is_none()).count()
    }

    pub(crate) async fn live(self, mandate: Mandate, manner: Manner) -> Result<(), String> {
        let index = {
            let mut lives = self.lives.lock();
            let (start, term) = (self.env.now(), mandate.term());
            lives.push(Life { start, cancelled: None, end: None, left: Duration::ZERO, term });
            lives.len() - 1
        };
        let env = self.env.clone();
        let lives = Arc::clone(&self.lives);
        let pen = Pen { diary: self, index, mandate };
        let note = || lives.lock()[index].cancelled = Some(env.now());
        let ms = Duration::from_millis;
        match manner {
            Manner::Good => {
                pen.mandate.cancelled().await;
                note();
            }
            Manner::Slow(time) => {
                pen.mandate.cancelled().await;
                note();
                env.sleep(ms(time)).await;
            }
            Manner::Deaf => loop {
                env.sleep(ms(10)).await;
            },
            Manner::Fails(time) => {
                env.sleep(ms(time)).await;
                return Err("it did not work".to_owned());
            }
            Manner::Returns(time) => env.sleep(ms(time)).await,
            Manner::Panics => panic!("on purpose"),
        }
        Ok(())
    }

    async fn follow(self, standby: Standby) {
        self.followers.fetch_add(1, Ordering::SeqCst);
        self.followers_now.fetch_add(1, Ordering::SeqCst);
        standby.cancelled().await;
        self.followers_now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A singleton on a script, and what it went through.
pub(crate) struct Stage {
    pub(crate) env: Env,
    pub(crate) script: Script,
    pub(crate) diary: Diary,
    pub(crate) singleton: Singleton,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

pub(crate) const LEASE: Duration = Duration::from_secs(12);
pub(crate) const GRACE: Duration = Duration::from_secs(2);

impl Stage {
    pub(crate) fn start(mood: Mood, manner: Manner) -> Self {
        Self::start_with(mood, manner, |_| {}, false)
    }

    pub(crate) fn start_with(
        mood: Mood,
        manner: Manner,
        policy: impl FnOnce(&mut Policy),
        follower: bool,
    ) -> Self {
        let env = Env::simulated(3);
        let (script, diary) = (Script::new(&env, mood), Diary::new(&env));
        let events = Arc::new(Mutex::new(Vec::new()));
        let (lives, told) = (diary.clone(), Arc::clone(&events));
        let child = move |mandate| lives.clone().live(mandate, manner);
        let mut builder = SingletonBuilder::with_oracle_in("nightly", script.oracle(), env.clone(), child)
            .policy(|policy| policy.grace = GRACE)
            .policy(policy)
            .on_event(move |event| told.lock().push(event.clone()));
        if follower {
            let follows = diary.clone();
            builder = builder.follower(move |standby| follows.clone().follow(standby));
        }
        let singleton = builder.start().unwrap();
        Self { env, script, diary, singleton, events }
    }

    pub(crate) async fn sleep(&self, ms: u64) {
        self.env.sleep(Duration::from_millis(ms)).await;
    }

    pub(crate) fn told(&self, event: impl Fn(&Event) -> bool) -> bool {
        self.events.lock().iter().any(event)
    }
}
