//! [`Facts`]: what the store says of offices, read for many of them at once.

use std::collections::BTreeMap;

use bytes::Bytes;
use tenure_store::{
    Item, Key, Name, Read, StoreError, Version, Versioned,
    record::{Decoder, Encoder},
};

use super::office::Office;
use crate::{Cause, Keys, Member, MemberState, Session, SessionId, node::Node, session::Beat};

/// How many candidates at the head of a queue are looked at: those whose sessions have ended are passed over.
pub(super) const HEADS: usize = 4;

/// What the reader is doing, for errors.
const READING: &str = "look at offices";

/// A candidate that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) key: Key,
    pub(crate) session: SessionId,
    pub(crate) node: Name,
}

impl Candidate {
    const FORMAT: u8 = 1;

    pub(crate) fn encode(node: &Name) -> Bytes {
        Encoder::new(Self::FORMAT).text(node.as_str()).finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        let node = Decoder::all(key, value, Self::FORMAT, Decoder::name)?;
        Ok(Self { key: key.clone(), session: Keys::place_of(key)?.session, node })
    }
}

/// One office, and who waits for it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) office: Office,
    pub(super) version: Option<Version>,
    pub(super) heads: Vec<Candidate>,
}

impl Known {
    fn decode(key: &Key, office: Option<&Versioned>, queue: &[Item]) -> Result<Self, StoreError> {
        let (office, version) = match office {
            Some(found) => (Office::decode(key, &found.value)?, Some(found.version)),
            None => (Office::default(), None),
        };
        let heads = queue.iter().map(|item| Candidate::decode(&item.key, &item.value));
        Ok(Self { office, version, heads: heads.collect::<Result<_, _>>()? })
    }
}

/// What the store says of the offices that are asked for.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What is known of each, in order. A record that can't be read is the trouble of those who ask for it, and of nobody else.
    pub(super) offices: Vec<Result<Known, StoreError>>,
    /// How often the sessions that exist were renewed; `None` for those that have ended.
    renewals: BTreeMap<SessionId, Option<u64>>,
    causes: BTreeMap<SessionId, Cause>,
}

impl Facts {
    /// Reads the offices, who waits for them, and which of those sessions exist; `own` is taken to.
    pub(super) async fn read(node: &Node, elections: &[&Name], own: &Session) -> Result<Self, StoreError> {
        let offices: Vec<Key> = elections.iter().map(|election| node.keys.election(election)).collect();
        let reads = elections.iter().zip(&offices).flat_map(|(election, office)| {
            let queue = Read::Range { range: node.keys.candidates(election), limit: HEADS };
            [Read::Key(office.clone()), queue]
        });
        let snapshot = node.bounded(READING, node.store.read(reads.collect())).await??;
        let mut facts = Facts::default();
        let mut holders = BTreeMap::new();
        for (index, key) in offices.iter().enumerate() {
            let queue = &snapshot.range(2 * index + 1).items;
            let known = Known::decode(key, snapshot.key(2 * index), queue);
            if let Ok(Known { office, heads, .. }) = &known {
                facts.renewals.extend(heads.iter().map(|head| (head.session, None)));
                if let Some(holder) = &office.holder {
                    facts.renewals.insert(holder.session, None);
                    holders.insert(holder.session, holder.node.clone());
                }
            }
            facts.offices.push(known);
        }
        // Nobody who claims an office doubts that its own session exists: the commit checks it.
        facts.renewals.remove(&own.id());
        facts.read_sessions(node, &holders).await?;
        facts.renewals.insert(own.id(), Some(own.renewals()));
        Ok(facts)
    }

    async fn read_sessions(
        &mut self,
        node: &Node,
        holders: &BTreeMap<SessionId, Name>,
    ) -> Result<(), StoreError> {
        let ids: Vec<SessionId> = self.renewals.keys().copied().collect();
        for ids in ids.chunks((node.store.limits().read_questions / 2).max(1)) {
            // A session's beat is there as long as the session is, and tells more.
            let beats: Vec<Key> = ids.iter().map(|id| node.keys.beat(*id)).collect();
            let members: Vec<(SessionId, Key)> = ids
                .iter()
                .filter_map(|id| holders.get(id).map(|holder| (*id, node.keys.member(holder))))
                .collect();
            let reads = beats.iter().chain(members.iter().map(|(_, key)| key)).cloned().map(Read::Key);
            let snapshot = node.bounded(READING, node.store.read(reads.collect())).await??;
            for (index, (id, key)) in ids.iter().zip(&beats).enumerate() {
                let beat = snapshot.key(index).map(|found| Beat::decode(key, &found.value)).transpose()?;
                self.renewals.insert(*id, beat.map(|beat| beat.renewals));
            }
            for (index, (id, key)) in members.iter().enumerate() {
                // Why a session ended is for the history alone: what can't be read is left open.
                let member = snapshot.key(ids.len() + index).map(|found| Member::decode(key, &found.value));
                if let Some(Ok(member)) = member
                    && let (true, MemberState::Gone(cause)) = (member.session == *id, member.state)
                {
                    self.causes.insert(*id, cause);
                }
            }
        }
        Ok(())
    }

    /// Whether a session exists that holds one of the offices or waits for it.
    pub(super) fn is_present(&self, session: SessionId) -> bool {
        self.renewals.get(&session).is_some_and(Option::is_some)
    }

    /// How often a session was renewed that holds one of the offices or waits for it.
    pub(super) fn renewals(&self, session: SessionId) -> u64 {
        self.renewals.get(&session).copied().flatten().unwrap_or(0)
    }

    /// Why a session has ended that held one of the offices.
    pub(super) fn cause(&self, session: SessionId) -> Option<Cause> {
        self.causes.get(&session).copied()
    }
}
