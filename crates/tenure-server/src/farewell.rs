//! [`Farewell`]: what is to be done along with the deletion of a server: those who wait for it are told, and its timers
//! are forgotten.
//!
//! Whoever sends to a server writes its mark of work in the same commit. So a deletion that checks that the mark is as it
//! was before the messages were read meets no call that it has not read.

use std::collections::{BTreeMap, BTreeSet};

use tenure_cluster::{Ground, SessionId};
use tenure_store::{
    Check, Commit, CommitError, Conflict, EntryId, Key, Limits, Read, Store, StoreError, StoreExt as _,
};

use crate::{
    ServerError,
    dead::scan,
    desk,
    head::Head,
    keys::{ServerKeys, numbers_of},
    owed,
    parcel::{Address, Bundle},
    reply::{self, Outcome},
};

/// How many keys of timers one commit takes along, and of its operations at most a third, with room for the rest.
const DUES_MAX: usize = 40;

/// The most callers that are told; a queue is rarely as long.
const CALLERS_MAX: usize = 100_000;

/// How often a deletion gives way to messages that come while it is under way. If they come without a pause, it is made
/// all the same: then the callers of the last moment are not told.
pub(crate) const TRIES_MAX: u32 = 16;

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
    /// That nothing was sent since it was read.
    pub(crate) unchanged: Option<Check>,
}

impl Farewell {
    /// What there is. Effects come only with another head: read it before. It also says which messages of the entry in
    /// hand are done: their callers have their answers.
    pub(crate) async fn read(
        store: &dyn Store,
        keys: &ServerKeys,
        head: Option<&Head>,
    ) -> Result<Self, ServerError> {
        let work = store.get(&keys.work).await?;
        let unchanged = match work {
            Some(found) => Check::Version(keys.work.clone(), found.version),
            None => Check::Absent(keys.work.clone()),
        };
        let mut all = Self { unchanged: Some(unchanged), ..Self::default() };
        for item in scan(store, &keys.oweds()).await? {
            all.callers.insert(owed::address_of(&item.key)?);
        }
        for item in scan(store, &keys.timers()).await? {
            let (timer, at) = numbers_of(&item.key)?;
            all.dues.insert(keys.due(at, timer));
            all.meet(store, keys, &item.key, &item.value, 0).await?;
        }
        for list in [&keys.queue, &keys.urgent] {
            all.meet_list(store, keys, list, head).await?;
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
        head: Option<&Head>,
    ) -> Result<(), StoreError> {
        let mut after: Option<EntryId> = None;
        loop {
            let limit = store.limits().page_items;
            let found =
                store.read(vec![Read::List { list: list.clone(), after: after.take(), limit }]).await?;
            let page = found.list(0);
            for entry in &page.items {
                let in_hand = head.filter(|head| head.in_hand.as_ref() == Some(&entry.id));
                let done = in_hand.map_or(0, |head| usize::try_from(head.cursor).unwrap_or(usize::MAX));
                self.meet(store, keys, list, &entry.value, done).await?;
            }
            after = page.items.last().map(|entry| entry.id.clone());
            if !page.more || after.is_none() || self.callers.len() >= CALLERS_MAX {
                return Ok(());
            }
        }
    }

    /// Adds the callers of the messages that this value holds, but for so many that are done.
    async fn meet(
        &mut self,
        store: &dyn Store,
        keys: &ServerKeys,
        place: &Key,
        value: &[u8],
        done: usize,
    ) -> Result<(), StoreError> {
        self.messages = true;
        let mut bundle = Bundle::decode(place, value)?;
        if let Bundle::InPieces { bundle: number, .. } = bundle {
            // Without its pieces, somebody has taken it meanwhile.
            let Some(whole) = desk::pieces(store, &keys.pieces(number)).await? else { return Ok(()) };
            bundle = Bundle::decode(place, &whole)?;
        }
        if let Bundle::Here(parcels) = bundle {
            self.callers.extend(parcels.iter().skip(done).filter_map(|parcel| parcel.to));
        }
        Ok(())
    }

    /// These keys of `due` are to go as well.
    pub(crate) fn add_dues(&mut self, dues: impl IntoIterator<Item = Key>) {
        self.dues.extend(dues);
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

    /// Does what the deletion could not take along. What fails for as long as is to be tried is left: callers give up, and
    /// timers without a message go when they are due.
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
                insist(ground, commit).await;
            }
        }
    }
}

/// Makes a commit that may be made twice.
async fn insist(ground: &Ground, commit: Commit) {
    let mut pauses = ground.retry().start(ground.env());
    loop {
        let error = match ground.store().commit(commit.clone()).await {
            // The callers have gone.
            Ok(_) | Err(CommitError::Conflict(Conflict::Check { .. })) => return,
            Err(error) => error,
        };
        let passes = !matches!(&error, CommitError::Failed(error) if !error.is_transient());
        if !passes || !pauses.pause().await {
            tracing::warn!(%error, "not all could be told that a server was deleted: they time out");
            return;
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
