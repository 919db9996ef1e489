//! The queue of an election: candidates as keys, in the order in which they are served, and [`Usher`], who lets them in.
//!
//! A candidate that nobody stands behind any more would be in everybody's way. So candidates enter through a [`Lane`]: an entry
//! whose answer was lost either has landed, which is then known, or never will.

use std::sync::Arc;

use tenure_store::{
    Check, Commit, CommitError, Key, Lane, LaneError, Name, Range, Reason, StoreError, StoreExt as _,
};
use tokio::sync::{mpsc, oneshot};

use super::facts::Candidate;
use crate::{ClusterError, Keys, Session, SessionId, keys::Place, node::Node};

/// The most candidates that enter by one commit.
const BATCH_MAX: usize = 50;

/// The way into the queues. Clones lead to the same usher.
#[derive(Clone, Debug)]
pub(crate) struct Queues {
    entries: mpsc::UnboundedSender<Entry>,
}

#[derive(Debug)]
struct Entry {
    election: Name,
    session: Session,
    priority: i32,
    answer: oneshot::Sender<Result<Key, ClusterError>>,
}

impl Queues {
    /// The way to an usher, and the usher.
    pub(crate) fn new(node: Arc<Node>) -> (Self, Usher) {
        let (entries, waiting) = mpsc::unbounded_channel();
        (Self { entries }, Usher { node, waiting, lane: None })
    }

    /// Puts a candidate into the queue, behind all of its priority that are there. Returns its key.
    ///
    /// # Errors
    /// [`ClusterError::Fenced`] when the session has ended. On no error is the candidate in the queue.
    pub(crate) async fn enter(
        &self,
        election: &Name,
        session: &Session,
        priority: i32,
    ) -> Result<Key, ClusterError> {
        let (answer, answered) = oneshot::channel();
        let entry = Entry { election: election.clone(), session: session.clone(), priority, answer };
        self.entries.send(entry).map_err(|_| ClusterError::Left)?;
        answered.await.map_err(|_| ClusterError::Left)?
    }
}

/// Lets candidates into queues, many at once.
#[derive(Debug)]
pub(crate) struct Usher {
    node: Arc<Node>,
    waiting: mpsc::UnboundedReceiver<Entry>,
    /// The lane of the session that it was opened for.
    lane: Option<(SessionId, Lane)>,
}

impl Usher {
    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        let mut next = None;
        loop {
            let Some(first) = (match next.take() {
                Some(entry) => Some(entry),
                None => self.waiting.recv().await,
            }) else {
                return;
            };
            let mut batch = vec![first];
            while batch.len() < BATCH_MAX
                && let Ok(entry) = self.waiting.try_recv()
            {
                // One session a commit, and one entry an election, since its place depends on those before.
                let joins = entry.session.id() == batch[0].session.id()
                    && !batch.iter().any(|other| other.election == entry.election);
                if !joins {
                    next = Some(entry);
                    break;
                }
                batch.push(entry);
            }
            self.let_in(batch).await;
        }
    }

    async fn let_in(&mut self, batch: Vec<Entry>) {
        let mut placed = Vec::new();
        let mut commit = Commit::new();
        for entry in batch {
            // Those who went away meanwhile are not let in.
            if entry.answer.is_closed() {
                continue;
            }
            match self.place(&entry).await {
                Ok((key, there)) => {
                    if !there {
                        commit = commit.set(key.clone(), Candidate::encode(&self.node.settings.node));
                    }
                    placed.push((entry, key));
                }
                // A queue that can't be read is the trouble of those who want into it, and of nobody else.
                Err(error) => drop(entry.answer.send(Err(error.into()))),
            }
        }
        let Some(session) = placed.first().map(|(entry, _)| entry.session.id()) else { return };
        match self.make(commit, session).await {
            Ok(()) => {
                for (entry, key) in placed {
                    if let Err(Ok(key)) = entry.answer.send(Ok(key)) {
                        let node = Arc::clone(&self.node);
                        self.node.env.spawn(async move { withdraw(&node, &key).await });
                    }
                }
            }
            Err(error) => {
                placed.into_iter().for_each(|(entry, _)| drop(entry.answer.send(Err(error.clone()))));
            }
        }
    }

    /// Makes the entries of a session, exactly once.
    async fn make(&mut self, entries: Commit, session: SessionId) -> Result<(), ClusterError> {
        if entries.writes.is_empty() {
            return Ok(());
        }
        let commit = entries.check(Check::Present(self.node.keys.session(session)));
        match self.lane(session).await?.commit(commit).await {
            Ok(_) => Ok(()),
            Err(LaneError::Conflict(_) | LaneError::Lost { .. }) => {
                Err(ClusterError::Fenced(Reason::new(format!("session {session} has ended"))))
            }
            Err(LaneError::Failed(error)) => Err(error.into()),
            // The next use of the lane settles it. Until then these candidates count as not entered; if they have, they are found there.
            Err(error) => Err(ClusterError::Store(StoreError::unavailable(error.to_string()))),
        }
    }

    /// Where a candidate goes, and whether it is there already.
    async fn place(&self, entry: &Entry) -> Result<(Key, bool), StoreError> {
        let (node, session) = (&self.node, entry.session.id());
        let mut last = 0;
        for candidate in scan(node, &node.keys.candidates(&entry.election)).await? {
            let place = Keys::place_of(&candidate.key)?;
            if place.session == session && place.priority == entry.priority {
                return Ok((candidate.key, true));
            }
            if place.priority == entry.priority {
                last = last.max(place.ticket);
            }
        }
        let place = Place { priority: entry.priority, ticket: last + 1, session };
        Ok((node.keys.candidate(&entry.election, &place), false))
    }

    async fn lane(&mut self, session: SessionId) -> Result<&mut Lane, ClusterError> {
        let lane = match self.lane.take() {
            Some((owner, lane)) if owner == session => lane,
            _ => {
                let key = self.node.keys.lane(session);
                // A lane that was opened after its session had ended would stay for ever.
                let present = vec![Check::Present(self.node.keys.session(session))];
                let (store, env) = (Arc::clone(&self.node.store), self.node.env.clone());
                let opening = Lane::open_if(store, env, key, self.node.retry(), present);
                opening.await.map_err(|error| match error {
                    LaneError::Failed(error) => ClusterError::Store(error),
                    error => ClusterError::Store(StoreError::unavailable(error.to_string())),
                })?
            }
        };
        Ok(&mut self.lane.insert((session, lane)).1)
    }
}

/// Takes a candidate out of the queue, however long that takes: one that nobody stands behind would be in everybody's way.
pub(crate) async fn withdraw(node: &Node, key: &Key) {
    while let Err(error) = node.store.commit(Commit::new().delete(key.clone())).await {
        tracing::debug!(%error, "a candidate could not be withdrawn: it is tried again");
        node.env.sleep(node.settings.renewal_interval / 4).await;
    }
}

/// Who stands right before this place and has a session; those without are taken out on the way.
pub(crate) async fn before(
    node: &Node,
    election: &Name,
    own: &Key,
) -> Result<Option<Candidate>, CommitError> {
    let start = node.keys.candidates(election).start().clone();
    let ahead = scan(node, &Range::Between { start, end: own.clone() }).await?;
    for candidate in ahead.into_iter().rev() {
        if node.store.get(&node.keys.session(candidate.session)).await?.is_some() {
            return Ok(Some(candidate));
        }
        node.store.commit(Commit::new().delete(candidate.key)).await?;
    }
    Ok(None)
}

/// The first candidate of this node.
pub(crate) async fn find(node: &Node, election: &Name, of: &Name) -> Result<Option<Candidate>, StoreError> {
    let all = scan(node, &node.keys.candidates(election)).await?;
    Ok(all.into_iter().find(|candidate| candidate.node == *of))
}

/// Whether this session waits.
pub(crate) async fn has(node: &Node, election: &Name, session: SessionId) -> Result<bool, StoreError> {
    let all = scan(node, &node.keys.candidates(election)).await?;
    Ok(all.iter().any(|candidate| candidate.session == session))
}

async fn scan(node: &Node, range: &Range) -> Result<Vec<Candidate>, StoreError> {
    node.scan(range).await?.iter().map(|item| Candidate::decode(&item.key, &item.value)).collect()
}
