//! Durable effects: recorded with the state, done after it, until they succeed.
//!
//! Each server has a list of effects that are not done. The node whose commit has recorded them does them; if its session has ended, whoever finds them. So an effect is done at least once,
//! and twice only if a node went, or was taken for gone, while it did it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    Commit, Entry, EntryId, Key, Name, Retry, Store as _, StoreError, StoreExt as _,
    record::{Decoder, Encoder},
};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::{EffectId, Failure, Server, desk::Request, keys::ServerKeys, kind::Kind, parcel::unpack};

const FORMAT: u8 = 1;

/// How many effects of one server are done at once.
const AT_ONCE: usize = 16;

/// Between tries of effects that fail.
const RETRY: Retry =
    Retry { first: Duration::from_millis(100), most: Duration::from_secs(30), within: Duration::MAX };

pub(crate) fn record(id: EffectId, session: SessionId, body: &Bytes) -> Bytes {
    Encoder::new(FORMAT).number(id.0).number(id.1).array(session.to_bytes()).bytes(body).finish()
}

fn read(list: &Key, value: &[u8]) -> Result<(EffectId, SessionId, Bytes), StoreError> {
    Decoder::all(list, value, FORMAT, |from| {
        let id = EffectId(from.number()?, from.number()?);
        let session = SessionId::from_bytes(from.array()?);
        Ok((id, session, Bytes::copy_from_slice(from.bytes()?)))
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
            let (id, session, body) = read(list, &entry.value)?;
            let own = session == ground.session().id();
            if !own && ground.store().get(&ground.keys().session(session)).await?.is_some() {
                others.insert(entry.id);
                continue;
            }
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
            running.push((entry.id, id, outcome));
        }
        if running.is_empty() {
            return Ok(None);
        }
        let (mut commit, mut all) = (Commit::new(), true);
        for (entry, id, outcome) in running {
            match outcome.await.unwrap_or_else(|_| Err(Failure::new("it panicked"))) {
                Ok(()) => commit = commit.remove(list.clone(), entry),
                Err(failure) => {
                    tracing::warn!(kind = S::KIND, server = %self.id, effect = %id, error = %failure, "an effect failed: it is tried again");
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
