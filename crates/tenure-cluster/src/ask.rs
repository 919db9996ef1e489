//! [`Ask`]: what an operator asks of a leader.
//!
//! Nobody is forced: a leader that listens stops its work first, and gives the office up then. One that does not can be [deposed](crate::Election::depose).

use bytes::Bytes;
use tenure_store::{
    Check, Commit, CommitError, Conflict, Key, Name, Range, StoreError, StoreExt as _,
    record::{Decoder, Encoder},
};

use crate::{ClusterError, Election, Holder, SessionId, Term, election::Office, node::Node};

const FORMAT: u8 = 1;

/// That a leader is to give its office up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ask {
    /// In which term it was asked: it concerns no other.
    pub term: Term,
    /// To whom; to whoever waits first, if nobody is named.
    pub to: Option<Name>,
}

impl Ask {
    fn encode(&self) -> Bytes {
        Encoder::new(FORMAT)
            .number(self.term.0)
            .optional(self.to.as_ref(), |into, to| into.text(to.as_str()))
            .finish()
    }

    fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |from| {
            Ok(Self { term: Term(from.number()?), to: from.optional(Decoder::name)? })
        })
    }
}

/// Asks the leader of an election to give it up. Returns who that is and its term; `None` if nobody leads.
pub(crate) async fn ask(
    node: &Node,
    election: &Name,
    to: Option<Name>,
) -> Result<Option<(Holder, Term)>, ClusterError> {
    let office = node.keys.election(election);
    let Some(found) = node.store.get(&office).await? else { return Ok(None) };
    let Office { term, holder: Some(holder), .. } = Office::decode(&office, &found.value)? else {
        return Ok(None);
    };
    let term = Term(term);
    let key = node.keys.ask(holder.session, election);
    // What belongs to a session that has ended would stay for ever.
    let commit = Commit::new()
        .check(Check::Present(node.keys.session(holder.session)))
        .set(key, Ask { term, to }.encode());
    match node.store.commit(commit).await {
        Ok(_) => Ok(Some((holder, term))),
        Err(CommitError::Conflict(Conflict::Check { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Election {
    /// Returns when the leader of this term, who has this session, is asked to give the office up. It waits out errors of the store.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn asked(&self, session: SessionId, term: Term) -> Ask {
        let node = self.node();
        let key = node.keys.ask(session, self.name());
        let mut watch = node.store.watch(Range::Key(key.clone()));
        loop {
            let found = node.store.get(&key).await;
            match found.and_then(|found| found.map(|found| Ask::decode(&key, &found.value)).transpose()) {
                Ok(Some(ask)) if ask.term == term => return ask,
                Ok(_) => watch.changed().await,
                Err(error) => {
                    tracing::debug!(%error, election = %self.name(), "what is asked of its leader can't be read: it is tried again");
                    node.env.sleep(node.settings.renewal_interval / 4).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_is_read_as_it_was_written() {
        let key = Key::from("k");
        for to in [None, Some("heir".parse().unwrap())] {
            let ask = Ask { term: Term(7), to };
            assert_eq!(Ask::decode(&key, &ask.encode()).unwrap(), ask);
        }
        assert!(Ask::decode(&key, &[FORMAT]).is_err());
    }
}
