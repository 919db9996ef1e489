//! Durable effects: recorded with the state, done after it, until they succeed.
//!
//! Each server has a list of effects that are not done. The node whose commit has recorded them does them; if its session has ended, whoever finds them. So an effect is done at least once,
//! and twice only if a node went, or was taken for gone, while it did it, or if it took longer than it may.
//!
//! Several are done at once. One that takes long keeps no other waiting, as long as fewer than that do; and none takes longer than the policy says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

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
    let doing = Doing {
        kind,
        id: id.clone(),
        keys,
        told,
        running: BTreeMap::new(),
        ends: mpsc::channel(AT_ONCE),
        ended: BTreeSet::new(),
        end: None,
        has_failed: false,
    };
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
    /// What is being done, up to [`AT_ONCE`].
    running: BTreeMap<EntryId, Effect>,
    /// How tries end.
    ends: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    /// What has ended since the present page was read.
    ended: BTreeSet<EntryId>,
    /// Where the last look ended.
    end: Option<EntryId>,
    /// Whether one has failed since the last look from the beginning.
    has_failed: bool,
}

/// A try of an effect that has ended.
struct Ended {
    entry: EntryId,
    outcome: Result<(), Failure>,
}

/// An effect that is to be done now.
struct Due {
    entry: EntryId,
    effect: Effect,
    body: Bytes,
}

impl<S: Server> Doing<S> {
    /// Returns when there is nothing more that this node has to do.
    async fn run(mut self) {
        let env = self.kind.ground.env().clone();
        let mut pauses = RETRY.start(&env);
        while !self.has_left() {
            (self.end, self.has_failed) = (None, false);
            match self.look().await {
                Ok(false) if self.running.is_empty() => return,
                Ok(_) => {
                    self.attend(&mut pauses).await;
                    if !self.has_failed {
                        pauses = RETRY.start(&env);
                    }
                }
                Err(error) => {
                    tracing::debug!(kind = S::KIND, server = %self.id, %error, "effects could not be looked up: it is tried again");
                    pauses.pause().await;
                }
            }
        }
    }

    /// Waits until all have succeeded, or those that failed are to be tried again. What comes behind them meanwhile does
    /// not wait, nor do they wait for one that takes long.
    async fn attend(&mut self, pauses: &mut Pauses) {
        let pause = pauses.pause();
        tokio::pin!(pause);
        while self.has_failed || !self.running.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = self.ends.1.recv() => self.take(ended).await,
                _ = &mut pause, if self.has_failed => return,
                () = self.told.notified() => {
                    // What can't be looked up now is found by the next look from the beginning.
                    if self.look().await.is_err() {
                        self.has_failed = true;
                    }
                }
            }
        }
    }

    /// Begins each effect behind the end of the last look that is this node's. Returns whether there was any.
    async fn look(&mut self) -> Result<bool, StoreError> {
        let (store, list) = (Arc::clone(self.kind.ground.store()), self.keys.effects.clone());
        let limit = PAGE.min(store.limits().page_items);
        let (mut gone, mut any) = (BTreeMap::new(), false);
        loop {
            self.ended.clear();
            let read = Read::List { list: list.clone(), after: self.end.clone(), limit };
            let found = store.read(vec![read]).await?;
            let page = found.list(0);
            for entry in &page.items {
                // One that runs has its time; one that has just ended may be gone, or has its pause.
                let is_new = !self.running.contains_key(&entry.id) && !self.ended.contains(&entry.id);
                if is_new && let Some(due) = self.due(entry, &mut gone).await? {
                    any = true;
                    while self.running.len() >= AT_ONCE
                        && let Some(ended) = self.ends.1.recv().await
                    {
                        self.take(ended).await;
                    }
                    self.begin(due);
                }
                self.end = Some(entry.id.clone());
            }
            if !page.more {
                return Ok(any);
            }
        }
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

    /// A try has ended, and maybe others: removes those that succeeded.
    async fn take(&mut self, first: Ended) {
        let (mut next, mut removals) = (Some(first), Vec::new());
        while let Some(Ended { entry, outcome }) = next {
            self.ended.insert(entry.clone());
            match (self.running.remove(&entry), outcome) {
                (Some(effect), Ok(())) => removals.push(effect.remove(&self.keys, entry)),
                (Some(effect), Err(failure)) => {
                    tracing::warn!(kind = S::KIND, server = %self.id, effect = %effect.id, message = effect.message, error = %failure, "an effect failed: it is tried again");
                    metrics::counter!("tenure_server_effects_failed_total", "kind" => S::KIND).increment(1);
                    self.has_failed = true;
                }
                (None, _) => {}
            }
            next = self.ends.1.try_recv().ok();
        }
        self.remove(removals).await;
    }

    /// Begins a try, in a task of its own, so that a panic is a failure. It may take as long as the policy says.
    fn begin(&mut self, due: Due) {
        let Due { entry, effect, body } = due;
        let (done, outcome) = oneshot::channel();
        let (kind, id, message) = (Arc::clone(&self.kind), effect.id, effect.message);
        let span =
            tracing::debug_span!("server.effect", kind = S::KIND, server = %self.id, message, effect = %id);
        let env = self.kind.ground.env().clone();
        let work = env.spawn(
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
        let (ends, place, watched) = (self.ends.0.clone(), entry.clone(), env.clone());
        env.spawn(async move {
            let most = S::POLICY.effect_timeout;
            let outcome = match watched.timeout(most, outcome).await {
                Ok(outcome) => outcome.unwrap_or_else(|_| Err(Failure::new("it panicked"))),
                Err(_) => {
                    work.abort();
                    Err(Failure::new(format!(
                        "it took longer than {most:?}, which is the policy's effect_timeout"
                    )))
                }
            };
            // Nobody may wait any more.
            let _ = ends.send(Ended { entry: place, outcome }).await;
        });
        self.running.insert(entry, effect);
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
