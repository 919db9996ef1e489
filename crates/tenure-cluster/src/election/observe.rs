//! [`Observation`]: watches who leads, without ever standing.

use std::sync::Arc;

use bytes::Bytes;
use tenure_store::{Name, Range, Read, StoreError, StoreExt as _, Watch};

use super::{Holder, Term, office::Office, payload};
use crate::{SessionId, node::Node, session::Beat};

/// Who leads, as an observer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Led {
    /// The present term, or the last one if nobody leads; `None` before the first.
    pub term: Option<Term>,
    /// Who leads, if anybody does.
    pub leader: Option<Holder>,
    /// What the leader has published in this term.
    pub payload: Option<Bytes>,
    /// How often the leader was renewed within this term. A renewal alone is no change that an observer is told of.
    pub renewals: u64,
}

impl Led {
    fn is_same(&self, other: &Led) -> bool {
        (self.term, &self.leader, &self.payload) == (other.term, &other.leader, &other.payload)
    }
}

/// A stream of who leads one election: what holds now at once, then every change that lasts until it is looked at.
#[derive(Debug)]
pub struct Observation {
    node: Arc<Node>,
    election: Name,
    office: Watch,
    payload: Watch,
    /// The watch over the session of the leader.
    session: Option<(SessionId, Watch)>,
    last: Option<Led>,
}

impl Observation {
    pub(crate) fn new(node: Arc<Node>, election: Name) -> Self {
        let office = node.store.watch(Range::Key(node.keys.election(&election)));
        let payload = node.store.watch(Range::Key(node.keys.payload(&election)));
        Self { node, election, office, payload, session: None, last: None }
    }

    /// Who leads now, the first time; then, whenever it has changed, who leads by then. It waits out errors of the store that pass.
    ///
    /// # Errors
    /// As [`Store::read`](tenure_store::Store::read), if it will not pass.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<Led, StoreError> {
        loop {
            match self.look().await {
                Ok(Some(led)) => return Ok(led),
                Ok(None) => self.rest().await,
                Err(error) if error.is_transient() => {
                    self.node.env.sleep(self.node.settings.renewal_interval / 4).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What holds now, if it is new and nothing in it could change unnoticed.
    async fn look(&mut self) -> Result<Option<Led>, StoreError> {
        loop {
            let (led, session) = read(&self.node, &self.election).await?;
            // A session that is not watched yet could have ended since: look again once it is.
            if let Some(session) = session
                && self.session.as_ref().is_none_or(|(watched, _)| *watched != session)
            {
                let watch = self.node.store.watch(Range::Key(self.node.keys.session(session)));
                self.session = Some((session, watch));
                continue;
            }
            if self.last.as_ref().is_some_and(|last| last.is_same(&led)) {
                return Ok(None);
            }
            self.last = Some(led.clone());
            return Ok(Some(led));
        }
    }

    async fn rest(&mut self) {
        let session = async {
            match &mut self.session {
                Some((_, watch)) => watch.changed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.office.changed() => {}
            () = self.payload.changed() => {}
            () = session => {}
        }
    }
}

/// Who leads, and the session in the office even if it has ended.
pub(crate) async fn read(node: &Node, election: &Name) -> Result<(Led, Option<SessionId>), StoreError> {
    let (office_key, payload_key) = (node.keys.election(election), node.keys.payload(election));
    let reads = vec![Read::Key(office_key.clone()), Read::Key(payload_key.clone())];
    let snapshot = node.store.read(reads).await?;
    let Some(found) = snapshot.key(0) else { return Ok((Led::default(), None)) };
    let office = Office::decode(&office_key, &found.value)?;
    let session = office.holder.as_ref().map(|holder| holder.session);
    let term = Some(Term(office.term));
    let beat = match session.map(|session| node.keys.beat(session)) {
        Some(key) => {
            let found = node.store.get(&key).await?;
            found.map(|found| Beat::decode(&key, &found.value)).transpose()?
        }
        None => None,
    };
    let (Some(beat), Some(holder)) = (beat, office.holder) else {
        return Ok((Led { term, ..Led::default() }, session));
    };
    let payload = match snapshot.key(1) {
        Some(found) => {
            let (published, payload) = payload::decode(&payload_key, &found.value)?;
            (Some(published) == term).then_some(payload)
        }
        None => None,
    };
    let renewals = beat.renewals.saturating_sub(holder.renewals);
    Ok((Led { term, leader: Some(holder), payload, renewals }, session))
}
