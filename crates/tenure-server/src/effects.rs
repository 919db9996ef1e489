//! Durable effects: recorded with the state, done after it, until they succeed.
//!
//! Each server has a list of effects that are not done. The node whose commit has recorded them does them; if its session has ended, whoever finds them. So an effect is done at least once,
//! and twice only if a node went, or was taken for gone, while it did it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_cluster::{Cause, SessionId};
use tenure_store::{
    Commit, Entry, EntryId, Key, Limits, Name, Pauses, Read, Retry, Store, StoreError, StoreExt as _,
    record::{Decoder, Encoder},
};
use tokio::sync::{Notify, mpsc, oneshot};
use tracing::Instrument as _;

use crate::{
    EffectId, Failure, Server,
    desk::{self, Request},
    keys::ServerKeys,
    kind::Kind,
    parcel::unpack,
    reply,
};

const FORMAT: u8 = 1;
const PIECES: u8 = 2;

/// How many effects of one server are done at once.
const AT_ONCE: usize = 16;

/// How many effects are read at once: more than are done, since those of others are passed over.
const PAGE: usize = 128;

/// Between tries of effects that fail.
const RETRY: Retry =
    Retry { first: Duration::from_millis(100), most: Duration::from_secs(30), within: Duration::MAX };

/// An effect that a callback asked for.
pub(crate) struct Wanted {
    pub(crate) id: EffectId,
    /// The message whose callback it was.
    pub(crate) message: u64,
    pub(crate) body: Bytes,
}

/// An effect that is not done.
struct Effect {
    id: EffectId,
    /// The session that does it.
    session: SessionId,
    /// The message that it came of.
    message: u64,
    /// What it says; the number of its pieces, if it is in some.
    body: Result<Bytes, u64>,
}

impl Effect {
    /// What it says; `None` if that is gone, since it was done meanwhile.
    async fn body(&self, store: &dyn Store, keys: &ServerKeys) -> Result<Option<Bytes>, StoreError> {
        match &self.body {
            Ok(body) => Ok(Some(body.clone())),
            Err(_) => desk::pieces(store, &keys.effect_pieces(self.id.0)).await,
        }
    }

    /// Removes it.
    fn remove(&self, keys: &ServerKeys, entry: EntryId) -> Commit {
        let pieces = self.body.as_ref().err().copied().unwrap_or(0);
        let commit = Commit::new().remove(keys.effects.clone(), entry);
        (0..pieces).fold(commit, |commit, at| commit.delete(keys.effect_piece(self.id.0, at)))
    }
}

/// Records an effect that this session is to do; in pieces, if it is too large for one value.
pub(crate) fn add(
    commit: Commit,
    keys: &ServerKeys,
    wanted: &Wanted,
    session: SessionId,
    limits: &Limits,
) -> Commit {
    let Wanted { id, message, body } = wanted;
    let record =
        |format| Encoder::new(format).number(id.0).number(id.1).array(session.to_bytes()).number(*message);
    let whole = record(FORMAT).bytes(body).finish();
    if whole.len() <= limits.value_bytes {
        return commit.append(keys.effects.clone(), whole);
    }
    let pieces = reply::pieces(body, limits.value_bytes);
    let commit = commit.append(keys.effects.clone(), record(PIECES).number(pieces.len() as u64).finish());
    let set = |commit: Commit, (piece, at): (Bytes, u64)| commit.set(keys.effect_piece(id.0, at), piece);
    pieces.into_iter().zip(0_u64..).fold(commit, set)
}

fn read(list: &Key, value: &[u8]) -> Result<Effect, StoreError> {
    let is_in_pieces = value.first() == Some(&PIECES);
    Decoder::all(list, value, if is_in_pieces { PIECES } else { FORMAT }, |from| {
        let id = EffectId(from.number()?, from.number()?);
        let session = SessionId::from_bytes(from.array()?);
        let message = from.number()?;
        let body = if is_in_pieces { Err(from.number()?) } else { Ok(Bytes::copy_from_slice(from.bytes()?)) };
        Ok(Effect { id, session, message, body })
    })
}

/// Does what is in the list of a server, and what comes meanwhile, of which it is told. Tells the desk at the end.
pub(crate) fn start<S: Server>(
    kind: &Arc<Kind<S>>,
    id: &Name,
    keys: &Arc<ServerKeys>,
    told: &Arc<Notify>,
    desk: mpsc::WeakSender<Request<S>>,
) {
    let (kind, keys, told) = (Arc::clone(kind), Arc::clone(keys), Arc::clone(told));
    let env = kind.ground.env().clone();
    let doing = Doing { kind, id: id.clone(), keys, told };
    env.spawn(async move {
        doing.run().await;
        if let Some(desk) = desk.upgrade() {
            // The desk may be going.
            let _ = desk.send(Request::EffectsDone).await;
        }
    });
}

struct Doing<S: Server> {
    kind: Arc<Kind<S>>,
    id: Name,
    keys: Arc<ServerKeys>,
    /// Told when there are more.
    told: Arc<Notify>,
}

/// What came of a look through the list.
struct Pass {
    /// Whether all that were tried have succeeded; `None` if there were none.
    all: Option<bool>,
    /// Where it ended.
    end: Option<EntryId>,
}

/// An effect that is to be done now.
struct Due {
    entry: EntryId,
    effect: Effect,
    body: Bytes,
}

impl<S: Server> Doing<S> {
    /// Returns when there is nothing more that this node has to do.
    async fn run(&self) {
        let env = self.kind.ground.env();
        let mut pauses = RETRY.start(env);
        while !self.has_left() {
            match self.pass(None).await {
                Ok(Pass { all: Some(true), .. }) => pauses = RETRY.start(env),
                Ok(Pass { all: Some(false), end }) => self.wait(&mut pauses, end).await,
                Ok(Pass { all: None, .. }) => return,
                Err(error) => {
                    tracing::debug!(kind = S::KIND, server = %self.id, %error, "effects could not be looked up: it is tried again");
                    pauses.pause().await;
                }
            }
        }
    }

    /// Waits until those that failed are to be tried again. What comes behind them meanwhile does not wait.
    async fn wait(&self, pauses: &mut Pauses, mut end: Option<EntryId>) {
        let pause = pauses.pause();
        tokio::pin!(pause);
        loop {
            tokio::select! {
                biased;
                _ = &mut pause => return,
                () = self.told.notified() => {}
            }
            // What can't be looked up now is found in the next pass.
            if let Ok(pass) = self.pass(end.clone()).await {
                end = pass.end;
            }
        }
    }

    /// Tries each effect behind this place that is this node's, once: one that fails keeps no other from its turn.
    async fn pass(&self, mut end: Option<EntryId>) -> Result<Pass, StoreError> {
        let (store, list) = (self.kind.ground.store(), &self.keys.effects);
        let limit = PAGE.min(store.limits().page_items);
        let (mut gone, mut due, mut all) = (BTreeMap::new(), Vec::new(), None);
        loop {
            let read = Read::List { list: list.clone(), after: end.clone(), limit };
            let found = store.read(vec![read]).await?;
            let page = found.list(0);
            for entry in &page.items {
                due.extend(self.due(entry, &mut gone).await?);
                if due.len() == AT_ONCE {
                    let succeeded = self.work_off(std::mem::take(&mut due)).await;
                    all = Some(all.unwrap_or(true) && succeeded);
                }
            }
            end = page.items.last().map(|last| last.id.clone()).or(end);
            if !page.more {
                break;
            }
        }
        if !due.is_empty() {
            let succeeded = self.work_off(due).await;
            all = Some(all.unwrap_or(true) && succeeded);
        }
        Ok(Pass { all, end })
    }

    /// The effect of this entry, if it is this node's: its own, or one that nobody else does. `gone` is what is known
    /// of the sessions of others.
    async fn due(
        &self,
        entry: &Entry,
        gone: &mut BTreeMap<SessionId, bool>,
    ) -> Result<Option<Due>, StoreError> {
        let ground = &self.kind.ground;
        let effect = match read(&self.keys.effects, &entry.value) {
            Ok(effect) => effect,
            Err(error) => {
                tracing::error!(kind = S::KIND, server = %self.id, %error, "an effect can't be read: it is left alone");
                return Ok(None);
            }
        };
        if effect.session != ground.session().id() {
            let is_gone = match gone.get(&effect.session) {
                Some(is_gone) => *is_gone,
                None => {
                    let found = ground.store().get(&ground.keys().session(effect.session)).await?;
                    *gone.entry(effect.session).or_insert(found.is_none())
                }
            };
            if !is_gone {
                return Ok(None);
            }
        }
        let body = effect.body(&**ground.store(), &self.keys).await?;
        Ok(body.map(|body| Due { entry: entry.id.clone(), effect, body }))
    }

    /// Does some effects, and removes those that succeeded. Returns whether all of them did.
    async fn work_off(&self, due: Vec<Due>) -> bool {
        let running: Vec<_> = due
            .into_iter()
            .map(|Due { entry, effect, body }| {
                let outcome = self.begin(&effect, body);
                (entry, effect, outcome)
            })
            .collect();
        let (mut removals, mut all) = (Vec::new(), true);
        for (entry, effect, outcome) in running {
            match outcome.await.unwrap_or_else(|_| Err(Failure::new("it panicked"))) {
                Ok(()) => removals.push(effect.remove(&self.keys, entry)),
                Err(failure) => {
                    tracing::warn!(kind = S::KIND, server = %self.id, effect = %effect.id, message = effect.message, error = %failure, "an effect failed: it is tried again");
                    metrics::counter!("tenure_server_effects_failed_total", "kind" => S::KIND).increment(1);
                    all = false;
                }
            }
        }
        self.remove(removals).await;
        all
    }

    /// Begins one, in a task of its own, so that a panic is a failure.
    fn begin(&self, effect: &Effect, body: Bytes) -> oneshot::Receiver<Result<(), Failure>> {
        let (done, outcome) = oneshot::channel();
        let (kind, id, message) = (Arc::clone(&self.kind), effect.id, effect.message);
        let span =
            tracing::debug_span!("server.effect", kind = S::KIND, server = %self.id, message, effect = %id);
        self.kind.ground.env().spawn(
            async move {
                let outcome = match unpack::<S::Effect>(&body) {
                    Ok(effect) => kind.server.handle_effect(effect, id).await,
                    Err(failure) => Err(failure),
                };
                // Nobody may wait any more.
                let _ = done.send(outcome);
            }
            .instrument(span),
        );
        outcome
    }

    /// Removes what was done, in as many commits as it takes.
    async fn remove(&self, removals: Vec<Commit>) {
        let most = self.kind.ground.store().limits().commit_operations;
        let mut commit = Commit::new();
        for removal in removals {
            if commit.writes.len() + removal.writes.len() > most {
                self.insist(std::mem::take(&mut commit)).await;
            }
            commit = commit.and(removal);
        }
        self.insist(commit).await;
    }

    /// Makes a commit of removals. What is removed stays so: it may be asked for again.
    async fn insist(&self, commit: Commit) {
        let ground = &self.kind.ground;
        while !commit.writes.is_empty() && !self.has_left() {
            match ground.store().commit(commit.clone()).await {
                Ok(_) => return,
                Err(error) => {
                    tracing::debug!(%error, "effects that were done could not be removed: it is tried again");
                    ground.env().sleep(RETRY.first).await;
                }
            }
        }
    }

    fn has_left(&self) -> bool {
        self.kind.ground.session().ended() == Some(Cause::Left)
    }
}
