//! Durable effects: recorded with the state, done after it, until they succeed.
//!
//! Each server has a list of effects that are not done. The node whose commit has recorded them does them; if its session has ended, whoever finds them. So an effect is done at least once,
//! and twice only if a node went, or was taken for gone, while it did it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Commit, Entry, EntryId, Key, Limits, Name, Retry, Store, StoreError, StoreExt as _,
    record::{Decoder, Encoder},
};
use tokio::sync::mpsc;
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

/// Between tries of effects that fail.
const RETRY: Retry =
    Retry { first: Duration::from_millis(100), most: Duration::from_secs(30), within: Duration::MAX };

/// An effect that is not done.
struct Effect {
    id: EffectId,
    /// The session that does it.
    session: SessionId,
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
    fn remove(&self, commit: Commit, keys: &ServerKeys, entry: EntryId) -> Commit {
        let pieces = self.body.as_ref().err().copied().unwrap_or(0);
        let commit = commit.remove(keys.effects.clone(), entry);
        (0..pieces).fold(commit, |commit, at| commit.delete(keys.effect_piece(self.id.0, at)))
    }
}

/// Records an effect that this session is to do; in pieces, if it is too large for one value.
pub(crate) fn add(
    commit: Commit,
    keys: &ServerKeys,
    id: EffectId,
    session: SessionId,
    body: &Bytes,
    limits: &Limits,
) -> Commit {
    let record = |format| Encoder::new(format).number(id.0).number(id.1).array(session.to_bytes());
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
        let body = if is_in_pieces { Err(from.number()?) } else { Ok(Bytes::copy_from_slice(from.bytes()?)) };
        Ok(Effect { id, session, body })
    })
}

/// Does what is in the list of a server, and tells its desk at the end.
pub(crate) fn start<S: Server>(
    kind: &Arc<Kind<S>>,
    id: &Name,
    keys: &Arc<ServerKeys>,
    desk: mpsc::WeakSender<Request<S>>,
) {
    let doing = Doing { kind: Arc::clone(kind), id: id.clone(), keys: Arc::clone(keys) };
    kind.ground.env().spawn(async move {
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
}

impl<S: Server> Doing<S> {
    /// Returns when there is nothing more that this node has to do.
    async fn run(&self) {
        let env = self.kind.ground.env();
        let mut pauses = RETRY.start(env);
        let mut others = BTreeSet::new();
        loop {
            match self.some(&mut others).await {
                Ok(Some(true)) => pauses = RETRY.start(env),
                Ok(Some(false)) => {
                    pauses.pause().await;
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(kind = S::KIND, server = %self.id, %error, "effects could not be looked up: it is tried again");
                    {
                        pauses.pause().await;
                    };
                }
            }
        }
    }

    /// Does some effects. Returns whether all of them succeeded; `None` if there are none for this node.
    async fn some(&self, others: &mut BTreeSet<EntryId>) -> Result<Option<bool>, StoreError> {
        let (ground, list) = (&self.kind.ground, &self.keys.effects);
        let limit = (AT_ONCE + others.len()).min(ground.store().limits().page_items);
        let page = ground.store().entries(list, limit).await?;
        let mut running = Vec::new();
        for entry in
            page.items.into_iter().filter(|entry| !others.contains(&entry.id)).collect::<Vec<Entry>>()
        {
            let effect = read(list, &entry.value)?;
            let (id, own) = (effect.id, effect.session == ground.session().id());
            if !own && ground.store().get(&ground.keys().session(effect.session)).await?.is_some() {
                others.insert(entry.id);
                continue;
            }
            let Some(body) = effect.body(&**ground.store(), &self.keys).await? else { continue };
            let (done, outcome) = tokio::sync::oneshot::channel();
            let kind = Arc::clone(&self.kind);
            let span = tracing::debug_span!("server.effect", kind = S::KIND, server = %self.id, effect = %id);
            // In a task of its own, so that a panic is a failure.
            ground.env().spawn(
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
            running.push((entry.id, effect, outcome));
        }
        if running.is_empty() {
            return Ok(None);
        }
        let (mut commit, mut all) = (Commit::new(), true);
        for (entry, effect, outcome) in running {
            match outcome.await.unwrap_or_else(|_| Err(Failure::new("it panicked"))) {
                Ok(()) => commit = effect.remove(commit, &self.keys, entry),
                Err(failure) => {
                    tracing::warn!(kind = S::KIND, server = %self.id, effect = %effect.id, error = %failure, "an effect failed: it is tried again");
                    metrics::counter!("tenure_server_effects_failed_total", "kind" => S::KIND).increment(1);
                    all = false;
                }
            }
        }
        while !commit.writes.is_empty() {
            // What is removed stays so: it may be asked for again.
            match ground.store().commit(commit.clone()).await {
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "effects that were done could not be removed: it is tried again");
                    ground.env().sleep(RETRY.first).await;
                    if ground.session().ended() == Some(tenure_cluster::Cause::Left) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(all))
    }
}
