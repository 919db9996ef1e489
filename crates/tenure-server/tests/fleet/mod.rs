//! Nodes in one process, on simulated time, over one store in memory, and a server that does a bit of everything.

#![allow(dead_code, reason = "not every test uses all of it")]
#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

pub(crate) mod bent;
mod counted;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde::{Deserialize, Serialize};
use tenure_cluster::{Cluster, Keys, Settings};
use tenure_server::{
    Context, EffectId, Failure, Fold, Locked, LockedRequest, Policy, ReplyTo, Serve as _, Server, ServerRef,
    Status, Timer,
    state::{Map, State},
};
use tenure_store::{Env, Faults, Faulty, Gate, Key, MemoryStore, Range, Store, StoreExt as _, Tuple};
use tokio::sync::Semaphore;

use bent::Bent;
pub(crate) use counted::Counted;

/// What all nodes of a test share.
#[derive(Clone)]
pub(crate) struct Fleet {
    pub(crate) env: Env,
    pub(crate) store: Arc<dyn Store>,
}

/// One node: a simulated process with a link to the store that can be cut.
pub(crate) struct Seat {
    pub(crate) cluster: Cluster,
    pub(crate) gate: Gate,
    pub(crate) link: Arc<Faulty>,
    /// What the node asks of the store.
    pub(crate) counted: Arc<Counted>,
    /// What becomes of its commits.
    pub(crate) bent: Arc<Bent>,
}

impl Seat {
    /// Ends the process at once: nothing of it reaches the store any more.
    pub(crate) fn kill(&self) {
        self.link.cut();
        self.gate.kill();
    }

    pub(crate) fn journal(&self, id: &str) -> ServerRef<Journal> {
        self.cluster.server(id).unwrap()
    }

    /// Serves journals that do what they do to this world.
    pub(crate) fn serve(&self, world: World) -> Arc<World> {
        let world = Arc::new(world);
        *world.fuse.lock() = Some((self.gate.clone(), Arc::clone(&self.link)));
        self.cluster.serve_with(Journal(Arc::clone(&world))).unwrap();
        world
    }
}

impl Fleet {
    pub(crate) fn new() -> Self {
        Self::over(MemoryStore::new())
    }

    pub(crate) fn over(store: impl Store + 'static) -> Self {
        Self::with_seed(7, store)
    }

    pub(crate) fn with_seed(seed: u64, store: impl Store + 'static) -> Self {
        Self { env: Env::simulated(seed), store: Arc::new(store) }
    }

    pub(crate) async fn join(&self, node: &str) -> Seat {
        self.join_at_speed(node, 100).await
    }

    /// A node whose clock runs at so many hundredths of the right speed.
    pub(crate) async fn join_at_speed(&self, node: &str, hundredths: u32) -> Seat {
        let gate = Gate::new();
        let env = self.env.fork().behind(&gate).at_speed(hundredths);
        let counted = Arc::new(Counted::new(Arc::clone(&self.store)));
        let bent = Arc::new(Bent::new(Arc::clone(&counted) as Arc<dyn Store>));
        let inner = Arc::clone(&bent) as Arc<dyn Store>;
        let link = Arc::new(Faulty::new(inner, self.env.fork(), Faults::NONE));
        let mut settings = Settings::new("c", node).unwrap();
        // One process runs all of them.
        settings.proof_of_death = false;
        let cluster = Cluster::join_in(Arc::clone(&link) as Arc<dyn Store>, settings, env).await.unwrap();
        Seat { cluster, gate, link, counted, bent }
    }

    /// Where the servers of this cluster have their keys, by a word of `keys.rs`.
    pub(crate) fn area(&self, word: &str) -> Tuple {
        Keys::new(&"c".parse().unwrap()).area(word)
    }

    /// All keys of an area, by name.
    pub(crate) async fn store_keys(&self, word: &str) -> Vec<String> {
        self.names(self.area(word).range()).await
    }

    /// How many entries this list of a journal has.
    pub(crate) async fn entries(&self, word: &str, id: &str) -> usize {
        let list = self.area(word).text(Journal::KIND).text(id).key();
        self.store.entries(&list, 1000).await.unwrap().items.len()
    }

    /// All keys of a range, by name.
    async fn names(&self, range: Range) -> Vec<String> {
        let (mut rest, mut found) = (Some(range), Vec::new());
        while let Some(range) = rest.take() {
            let page = self.store.scan(&range, 1000).await.unwrap();
            rest = page.items.last().filter(|_| page.more).map(|last| range.after(&last.key));
            found.extend(page.items.iter().map(|item| item.key.to_string()));
        }
        found
    }

    /// Every key that servers have, by name.
    pub(crate) async fn left(&self) -> Vec<String> {
        let mut found = self.names(Range::all()).await;
        found.retain(|key| {
            !["session", "beat", "local", "member", "consumer", "own"].iter().any(|word| key.contains(word))
        });
        found
    }
}

/// Waits until something is so.
pub(crate) async fn until<F: Future<Output = bool>>(env: &Env, mut is: impl FnMut() -> F) {
    for _ in 0..20_000 {
        if is().await {
            return;
        }
        env.sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came to be");
}

/// All that a journal has written down.
pub(crate) async fn said(journal: &ServerRef<Journal>) -> Vec<String> {
    journal.read(|pages| pages.said.clone()).await.unwrap()
}

/// What is known of a journal that exists.
pub(crate) async fn status(journal: &ServerRef<Journal>) -> Status {
    journal.status().await.unwrap().unwrap()
}

pub(crate) async fn is_locked(journal: &ServerRef<Journal>) -> bool {
    journal.status().await.unwrap().is_some_and(|status| status.is_locked)
}

/// A journal: a list of what was said to it, and what else a server can do.
#[derive(Clone, Default)]
pub(crate) struct Journal(pub(crate) Arc<World>);

/// What a journal does to the world.
#[derive(Default)]
pub(crate) struct World {
    /// How often callbacks ran.
    pub(crate) ran: AtomicU64,
    pub(crate) effects: parking_lot::Mutex<Vec<(String, EffectId)>>,
    /// How many effects fail before one succeeds.
    pub(crate) effects_failing: AtomicU64,
    pub(crate) works: AtomicU64,
    /// Locked work waits for one of these.
    pub(crate) permits: Option<Semaphore>,
    pub(crate) after: AtomicU64,
    /// How the process of this world ends.
    pub(crate) fuse: parking_lot::Mutex<Option<(Gate, Arc<Faulty>)>>,
}

impl World {
    /// A world in which locked work waits for permits.
    pub(crate) fn waiting() -> Self {
        Self { permits: Some(Semaphore::new(0)), ..Self::default() }
    }

    /// Lets one locked work go on.
    pub(crate) fn permit(&self) {
        self.permits.as_ref().unwrap().add_permits(1);
    }

    pub(crate) fn works(&self) -> u64 {
        self.works.load(Ordering::SeqCst)
    }

    pub(crate) fn ran(&self) -> u64 {
        self.ran.load(Ordering::SeqCst)
    }

    pub(crate) fn after(&self) -> u64 {
        self.after.load(Ordering::SeqCst)
    }

    /// What effects were tried, in order.
    pub(crate) fn effects(&self) -> Vec<(String, EffectId)> {
        self.effects.lock().clone()
    }
}

#[derive(Default, State)]
pub(crate) struct Pages {
    pub(crate) said: Vec<String>,
    pub(crate) waiting: Option<ReplyTo<Vec<String>>>,
    pub(crate) timer: Option<Timer>,
    #[state(parts)]
    pub(crate) notes: Map<String, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Say {
    /// Writes this down.
    Word(String),
    /// Fails so many times, then writes it down.
    Fail(String, u32),
    Panic(String),
    /// Ends the process that handles it.
    Kill,
    /// Writes down how often it has failed before.
    Attempt,
    /// Answers when somebody says `Release`.
    Hold,
    Release,
    /// Does locked work, then writes it down.
    Lock(String),
    /// Sends these to another journal.
    Send(String, Vec<String>),
    Remind(u64, String),
    Forget,
    /// Records this; it never succeeds if it is [`HOPELESS`].
    Effect(String),
    After,
    Stop,
    Delete,
    Note(String, u64),
    /// Answers with so many bytes.
    Large(usize),
    /// Changes so many notes.
    Notes(u64),
    /// At first, replaces all notes and fails, with the way to the store cut; then writes it down.
    Tear(String),
    /// The same with the deletion of the server.
    DeleteCut,
    /// Holds this call, and is answered by another journal, which is sent the address.
    Entrust(String),
    /// Sends so many bytes to another journal.
    Post(String, usize),
    /// Deletes the server, and sends to so many others.
    Scatter(u64),
    /// Answers for another.
    Answer(ReplyTo<Vec<String>>, usize),
}

/// An effect that never succeeds.
pub(crate) const HOPELESS: &str = "hopeless";

/// An effect that never returns.
pub(crate) const ENDLESS: &str = "endless";

impl Journal {
    /// Cuts the way to the store.
    fn cut(&self) {
        if let Some((_, link)) = &*self.0.fuse.lock() {
            link.cut();
        }
    }

    fn say(
        &self,
        pages: &mut Pages,
        say: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Vec<String>>, Failure> {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        match say {
            Say::Word(word) => pages.said.push(word.clone()),
            Say::Fail(word, times) => {
                pages.said.push(format!("half {word}"));
                if context.attempt() < usize::try_from(*times)? {
                    return Err(Failure::new(format!("{word} is not right")));
                }
                pages.said.pop();
                pages.said.push(word.clone());
            }
            Say::Panic(word) => {
                pages.said.push(format!("half {word}"));
                panic!("{word} is terrible");
            }
            Say::Kill => {
                if let Some((gate, link)) = &*self.0.fuse.lock() {
                    link.cut();
                    gate.kill();
                }
                panic!("it is dying");
            }
            Say::Attempt => pages.said.push(format!("attempt {}", context.attempt())),
            Say::Hold => {
                pages.waiting = context.reply_to();
                return Ok(None);
            }
            Say::Release => {
                if let Some(waiting) = pages.waiting.take() {
                    context.reply(&waiting, &vec!["released".to_owned()])?;
                }
            }
            Say::Lock(word) => {
                pages.said.push(format!("lock {word}"));
                context.lock()?;
                return Ok(None);
            }
            Say::Send(to, words) => {
                for word in words {
                    context.cast::<Self>(to, &Say::Word(word.clone()))?;
                }
            }
            Say::Remind(ms, word) => {
                let id = context.id().to_string();
                let timer =
                    context.cast_after::<Self>(&id, Duration::from_millis(*ms), &Say::Word(word.clone()))?;
                pages.timer = Some(timer);
            }
            Say::Forget => {
                if let Some(timer) = pages.timer.take() {
                    context.cancel(&timer);
                }
            }
            Say::Effect(word) => {
                context.effect(word)?;
            }
            Say::After => {
                let world = Arc::clone(&self.0);
                context.after_commit(async move {
                    world.after.fetch_add(1, Ordering::SeqCst);
                });
            }
            Say::Stop => context.stop("it was asked to"),
            Say::Delete => context.delete(),
            Say::Tear(word) => {
                if self.0.ran() == 1 {
                    pages.notes = Map::default();
                    self.cut();
                    return Err(Failure::new("torn"));
                }
                pages.said.push(word.clone());
            }
            Say::DeleteCut => {
                if self.0.ran() == 1 {
                    self.cut();
                }
                context.delete();
            }
            Say::Entrust(to) => {
                if let Some(waiting) = context.reply_to() {
                    context.cast::<Self>(to, &Say::Answer(waiting, 300_000))?;
                }
                return Ok(None);
            }
            Say::Answer(waiting, bytes) => {
                context.reply(waiting, &vec!["x".repeat(*bytes)])?;
                context.reply(waiting, &vec!["a second answer".to_owned()])?;
            }
            Say::Post(to, bytes) => context.cast::<Self>(to, &Say::Word("x".repeat(*bytes)))?,
            Say::Scatter(count) => {
                for number in 0..*count {
                    context.cast::<Self>(&format!("{number}-other"), &word("x"))?;
                }
                context.delete();
            }
            Say::Note(note, value) => {
                pages.notes.insert(note.clone(), *value);
            }
            Say::Large(bytes) => return Ok(Some(vec!["x".repeat(*bytes)])),
            Say::Notes(count) => {
                for note in 0..*count {
                    pages.notes.insert(note.to_string(), context.message());
                }
            }
        }
        Ok(Some(pages.said.clone()))
    }
}

impl Server for Journal {
    const KIND: &'static str = "journal";
    const POLICY: Policy = Policy {
        queue_max: 100,
        answers_kept: Duration::from_secs(600),
        dead_kept: Duration::from_secs(1200),
        ..Policy::DEFAULT
    };
    type State = Pages;
    type Call = Say;
    type Reply = Vec<String>;
    type Cast = Say;
    type Effect = String;

    fn handle_call(
        &self,
        pages: &mut Pages,
        call: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Vec<String>>, Failure> {
        self.say(pages, call, context)
    }

    fn handle_cast(
        &self,
        pages: &mut Pages,
        cast: &Say,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.say(pages, cast, context).map(|_| ())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        self.0.works.fetch_add(1, Ordering::SeqCst);
        if let Some(permits) = &self.0.permits {
            permits.acquire().await?.forget();
        }
        let (LockedRequest::Call(say) | LockedRequest::Cast(say)) = &locked.request;
        let Say::Lock(word) = &**say else { return Err(Failure::new("nothing to do")) };
        let word = word.clone();
        Ok(Fold::new(move |pages: &mut Pages, _: &mut Context<'_, Self>| {
            pages.said.push(format!("done {word}"));
            Ok(Some(pages.said.clone()))
        }))
    }

    async fn handle_effect(&self, effect: String, id: EffectId) -> Result<(), Failure> {
        self.0.effects.lock().push((effect.clone(), id));
        if effect == HOPELESS {
            return Err(Failure::new("it never succeeds"));
        }
        if effect == ENDLESS {
            std::future::pending::<()>().await;
        }
        let failing = self.0.effects_failing.load(Ordering::SeqCst);
        if failing > 0 {
            self.0.effects_failing.store(failing - 1, Ordering::SeqCst);
            return Err(Failure::new("not yet"));
        }
        Ok(())
    }
}

pub(crate) fn word(word: &str) -> Say {
    Say::Word(word.to_owned())
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The name of a key, for those who look at what is left.
pub(crate) fn name(key: &Key) -> String {
    key.to_string()
}
