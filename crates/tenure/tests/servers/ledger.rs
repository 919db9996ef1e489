//! [`Ledger`]: a server that writes lines, and does what a flow has steps for.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde::{Deserialize, Serialize};
use tenure::{
    prelude::*,
    server::{EffectId, LockedRequest},
};
use tokio::sync::Semaphore;

/// Writes lines.
#[derive(Clone, Default)]
pub(crate) struct Ledger(pub(crate) Arc<World>);

/// What ledgers of one node do to the world.
#[derive(Debug)]
pub(crate) struct World {
    /// How many callbacks ran.
    pub(crate) ran: AtomicUsize,
    /// Sees the state from another node.
    pub(crate) witness: OnceLock<ServerRef<Ledger>>,
    /// What the witness saw when a side effect ran.
    pub(crate) seen: Mutex<Vec<Vec<String>>>,
    /// Effects that were done.
    pub(crate) done: Mutex<Vec<String>>,
    /// Whether side effects and locked work wait for a permit.
    pub(crate) waits: AtomicBool,
    pub(crate) permits: Semaphore,
}

impl Default for World {
    fn default() -> Self {
        Self {
            ran: AtomicUsize::new(0),
            witness: OnceLock::new(),
            seen: Mutex::default(),
            done: Mutex::default(),
            waits: AtomicBool::new(false),
            permits: Semaphore::new(0),
        }
    }
}

impl World {
    async fn wait(&self) {
        if self.waits.load(Ordering::SeqCst) {
            self.permits.acquire().await.unwrap().forget();
        }
    }
}

#[derive(Default, State)]
pub(crate) struct Page {
    pub(crate) lines: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Writes a line.
    Line(String),
    /// Writes a line, and has side effects of both sorts.
    Act(String),
    /// Writes a line, and fails.
    Fail(String),
    /// Answers with a line of so many bytes.
    Long(usize),
    /// Does locked work, then writes a line.
    Work(String),
}

impl Ledger {
    fn ask(
        &self,
        page: &mut Page,
        ask: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Vec<String>>, Failure> {
        self.0.ran.fetch_add(1, Ordering::SeqCst);
        match ask {
            Ask::Line(line) => page.lines.push(line.clone()),
            Ask::Act(line) => {
                page.lines.push(line.clone());
                context.effect(line)?;
                let world = Arc::clone(&self.0);
                context.after_commit(async move {
                    if let Some(witness) = world.witness.get() {
                        let lines = witness.read(|page| page.lines.clone()).await.unwrap();
                        world.seen.lock().unwrap().push(lines);
                    }
                });
            }
            Ask::Fail(line) => {
                page.lines.push(line.clone());
                return Err(Failure::new(format!("{line} is wrong")));
            }
            Ask::Long(bytes) => return Ok(Some(vec!["x".repeat(*bytes)])),
            Ask::Work(_) => {
                context.lock()?;
                return Ok(None);
            }
        }
        Ok(Some(page.lines.clone()))
    }
}

impl Server for Ledger {
    const KIND: &'static str = "ledger";
    type State = Page;
    type Call = Ask;
    type Reply = Vec<String>;
    type Cast = Ask;
    type Effect = String;

    fn handle_call(
        &self,
        page: &mut Page,
        call: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<Option<Vec<String>>, Failure> {
        self.ask(page, call, context)
    }

    fn handle_cast(
        &self,
        page: &mut Page,
        cast: &Ask,
        context: &mut Context<'_, Self>,
    ) -> Result<(), Failure> {
        self.ask(page, cast, context).map(|_| ())
    }

    async fn handle_locked(&self, locked: Locked<Self>) -> Result<Fold<Self>, Failure> {
        self.0.wait().await;
        let (LockedRequest::Call(ask) | LockedRequest::Cast(ask)) = &locked.request;
        let Ask::Work(line) = &**ask else { return Err(Failure::new("nothing to do")) };
        let line = line.clone();
        Ok(Fold::new(move |page: &mut Page, _: &mut Context<'_, Self>| {
            page.lines.push(line.clone());
            Ok(Some(page.lines.clone()))
        }))
    }

    async fn handle_effect(&self, effect: String, _: EffectId) -> Result<(), Failure> {
        self.0.wait().await;
        self.0.done.lock().unwrap().push(effect);
        Ok(())
    }
}

pub(crate) fn line(line: &str) -> Ask {
    Ask::Line(line.to_owned())
}
