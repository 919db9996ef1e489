//! [`Farewell`]: what is to be done along with the deletion of a server: those who wait for it are told, and its timers
//! are forgotten.

use std::collections::{BTreeMap, BTreeSet};

use tenure_cluster::{Ground, SessionId};
use tenure_store::{Check, Commit, EntryId, Key, Limits, Read, Store, StoreError};

use crate::{
    ServerError,
    dead::scan,
    desk,
    keys::{ServerKeys, numbers_of},
    parcel::{Address, Bundle},
    reply::{self, Outcome},
};

/// How many keys of timers one commit takes along, and of its operations at most a third, with room for the rest.
const DUES_MAX: usize = 40;

/// The most callers that are told; a queue is rarely as long.
const CALLERS_MAX: usize = 100_000;

/// Answers, by the session of their callers.
pub(crate) type Answers = BTreeMap<SessionId, Vec<(u64, Outcome)>>;

/// What a server that is to be deleted leaves behind.
#[derive(Debug, Default)]
pub(crate) struct Farewell {
    callers: BTreeSet<Address>,
    /// Keys of `due`.
    dues: BTreeSet<Key>,
    /// Whether there are effects that are not done: they outlive their server.
    pub(crate) effects: bool,
    /// Whether there are messages, now or later.
    pub(crate) messages: bool,
}

impl Farewell {
    /// What there is. Effects come only with another head: read it before.
    pub(crate) async fn read(store: &dyn Store, keys: &ServerKeys) -> Result<Self, ServerError> {
        let mut all = Self::default();
        for item in scan(store, &keys.timers()).await? {
            let (timer, at) = numbers_of(&item.key)?;
            all.dues.insert(keys.due(at, timer));
            all.meet(store, keys, &item.key, &item.value).await?;
        }
        for list in [&keys.queue, &keys.urgent] {
            all.meet_list(store, keys, list).await?;
        }
        let read = Read::List { list: keys.effects.clone(), after: None, limit: 1 };
        all.effects = !store.read(vec![read]).await?.list(0).items.is_empty();
        Ok(all)
    }

    async fn meet_list(
        &mut self,
        store: &dyn Store,
        keys: &ServerKeys,
        list: &Key,
    ) -> Result<(), StoreError> {
        let mut after: Option<EntryId> = None;
        loop {
            let limit = store.limits().page_items;
            let found =
                store.read(vec![Read::List { list: list.clone(), after: after.take(), limit }]).await?;
            let page = found.list(0);
            for entry in &page.items {
                self.meet(store, keys, list, &entry.value).await?;
            }
            after = page.items.last().map(|entry| entry.id.clone());
            if !page.more || after.is_none() || self.callers.len() >= CALLERS_MAX {
                return Ok(());
            }
        }
    }

    /// Adds the callers of the messages that this value holds.
    async fn meet(
        &mut self,
        store: &dyn Store,
        keys: &ServerKeys,
        place: &Key,
        value: &[u8],
    ) -> Result<(), StoreError> {
        self.messages = true;
        let mut bundle = Bundle::decode(place, value)?;
        if let Bundle::InPieces { bundle: number, .. } = bundle {
            // Without its pieces, somebody has taken it meanwhile.
            let Some(whole) = desk::pieces(store, &keys.pieces(number)).await? else { return Ok(()) };
            bundle = Bundle::decode(place, &whole)?;
        }
        if let Bundle::Here(parcels) = bundle {
            self.callers.extend(parcels.iter().filter_map(|parcel| parcel.to));
        }
        Ok(())
    }

    /// This caller is told, or is not, since it gets another answer.
    pub(crate) fn set(&mut self, caller: Address, told: bool) {
        if told {
            self.callers.insert(caller);
        } else {
            self.callers.remove(&caller);
        }
    }

    /// As much as a commit may take along in which there is room for so much.
    pub(crate) fn some(&mut self, limits: &Limits) -> (Answers, Vec<Key>) {
        let (mut answers, mut dues) = (Answers::new(), Vec::new());
        // An answer has some twenty bytes; a session costs a check and a key.
        let (most, sessions) = (limits.commit_bytes / 256, limits.commit_operations / 8);
        for _ in 0..most {
            let Some(caller) = self.callers.pop_first() else { break };
            if answers.len() >= sessions && !answers.contains_key(&caller.session()) {
                self.callers.insert(caller);
                break;
            }
            answers.entry(caller.session()).or_default().push((caller.slot, Outcome::Deleted));
        }
        while dues.len() < DUES_MAX.min(limits.commit_operations / 3)
            && let Some(due) = self.dues.pop_first()
        {
            dues.push(due);
        }
        (answers, dues)
    }

    /// Does what the deletion could not take along. What fails is not tried again: callers give up, and timers without
    /// a message go when they are due.
    pub(crate) async fn finish(mut self, ground: &Ground) {
        let limits = ground.store().limits();
        while !self.callers.is_empty() || !self.dues.is_empty() {
            let (answers, dues) = self.some(&limits);
            let mut commits = vec![dues.into_iter().fold(Commit::new(), Commit::delete)];
            commits.extend(answers.iter().map(|(session, answers)| {
                let commit = Commit::new().check(Check::Present(ground.keys().session(*session)));
                tell(commit, ground, *session, answers)
            }));
            for commit in commits.into_iter().filter(|commit| !commit.writes.is_empty()) {
                if let Err(error) = ground.store().commit(commit).await {
                    tracing::debug!(%error, "not all could be told that a server was deleted");
                }
            }
        }
    }
}

/// Adds answers to callers of one session.
pub(crate) fn tell(
    commit: Commit,
    ground: &Ground,
    session: SessionId,
    answers: &[(u64, Outcome)],
) -> Commit {
    let (mark, piece) = (ground.env().random_u64(), ground.store().limits().value_bytes);
    let written = reply::write(ground.keys(), session, mark, answers, piece);
    written.into_iter().fold(commit, |commit, (key, value)| commit.set(key, value))
}
