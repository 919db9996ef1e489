//! [`Chronicle`]: the log of a registry as it was committed, and every member's names against it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use parking_lot::Mutex;
use tenure_cluster::SessionId;
use tenure_registry::{Elector, Led, Metadata, Page, Record, Recorded, Records};
use tenure_store::{Bytes, Commit, Key, Write};

use super::OneOwner;
use crate::Auditor;

/// A registration: whose, under which number, and what is said about it.
type Registered = (SessionId, u64, Metadata);

/// All names after one batch.
type Names = BTreeMap<String, Registered>;

/// Follows a registry through all commits. Clones are the same.
///
/// - Positions of the log are contiguous, epochs never go back, and nobody commits in another epoch than that of the leader's key.
/// - The leader's key never goes back either, and an epoch has one leader. Whoever leads does so until its session ends or it leaves: a leader's proof that it leads rests on that.
/// - A name is given only to a session that exists, and only when it is free; it is free only when its owner does not believe any more that it is its own.
/// - A request is granted once: what was taken back never comes back by a copy of it, however late.
#[derive(Clone, Debug)]
pub struct Chronicle(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    records: Records,
    owners: OneOwner,
    /// By key, all sessions that exist, and those that did.
    sessions: BTreeSet<Key>,
    ended: BTreeSet<Key>,
    session_prefix: Vec<u8>,
    /// Those whose owners have begun to leave.
    leaving: BTreeSet<SessionId>,
    led: Led,
    /// The epoch of the last batch.
    epoch: u64,
    /// After each position of the log.
    names: Vec<Arc<Names>>,
    /// To whom names were given in the batch at each position: one may be taken back in the same.
    given: Vec<Vec<(String, SessionId)>>,
    /// All registrations that ever were, by session and number.
    granted: BTreeSet<(SessionId, u64)>,
    /// All requests that came through the store, as they came.
    posted: Vec<Bytes>,
    counts: Counts,
}

/// What was seen in the log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Leaders that were named.
    pub leaders: u64,
    /// Batches that were committed.
    pub batches: u64,
    /// How often the log was shortened.
    pub shortened: u64,
    /// Requests that came through the store.
    pub posted: u64,
}

impl Chronicle {
    /// Follows a registry whose keys `records` knows, and whose registrations are all told to `owners`.
    #[must_use]
    pub fn new(records: Records, owners: OneOwner) -> Self {
        let any = records.session(SessionId::from_bytes([0; SessionId::BYTES]));
        let prefix =
            any.as_bytes().len() - tenure_store::Tuple::new().bytes(vec![0; SessionId::BYTES]).key().len();
        Self(Arc::new(Mutex::new(Inner {
            session_prefix: any.as_bytes()[..prefix].to_vec(),
            records,
            owners,
            sessions: BTreeSet::new(),
            ended: BTreeSet::new(),
            leaving: BTreeSet::new(),
            led: Led::default(),
            epoch: 0,
            names: vec![Arc::default()],
            given: vec![Vec::new()],
            granted: BTreeSet::new(),
            posted: Vec::new(),
            counts: Counts::default(),
        })))
    }

    /// What was seen so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.lock().counts
    }

    /// All requests that came through the store so far, as they came: what a copy of one would be.
    #[must_use]
    pub fn posted(&self) -> Vec<Bytes> {
        self.0.lock().posted.clone()
    }

    /// Who leads.
    #[must_use]
    pub fn led(&self) -> Led {
        self.0.lock().led.clone()
    }

    /// Up to where the log is.
    #[must_use]
    pub fn tip(&self) -> u64 {
        self.0.lock().tip()
    }

    /// The owner of a session begins to leave the registry, though its session may go on.
    pub fn leaves(&self, session: SessionId) {
        self.0.lock().leaving.insert(session);
    }

    /// Whether a session exists.
    #[must_use]
    pub fn exists(&self, session: SessionId) -> bool {
        let inner = self.0.lock();
        inner.sessions.contains(&inner.records.session(session))
    }

    /// Whose a name is, by all that is committed.
    #[must_use]
    pub fn names(&self) -> BTreeMap<String, (SessionId, u64)> {
        let inner = self.0.lock();
        let last = inner.names.last().expect("there is always one");
        last.iter().map(|(name, (session, number, _))| (name.clone(), (*session, *number))).collect()
    }

    /// Whether a session had a name at some instant since the log was at this position.
    #[must_use]
    pub fn had_since(&self, from: u64, name: &str, session: SessionId) -> bool {
        let (inner, from) = (self.0.lock(), usize::try_from(from).expect("a small number"));
        let has = |names: &Arc<Names>| names.get(name).is_some_and(|(owner, ..)| *owner == session);
        let given =
            |given: &Vec<(String, SessionId)>| given.iter().any(|(its, to)| its == name && *to == session);
        inner.names.iter().skip(from).any(has) || inner.given.iter().skip(from + 1).any(given)
    }

    /// What a member has must be what the log had at that position.
    ///
    /// # Errors
    /// What is different.
    pub fn check(&self, member: &str, page: &Page) -> Result<(), String> {
        let inner = self.0.lock();
        let position = usize::try_from(page.position).expect("a small number");
        let Some(expected) = inner.names.get(position) else {
            return Err(format!("{member} is at {position}, and the log ends at {}", inner.tip()));
        };
        let same = page.entries.len() == expected.len()
            && page.entries.iter().all(|entry| {
                expected.get(entry.name()).is_some_and(|(session, number, metadata)| {
                    (entry.owner().session, entry.number()) == (*session, *number)
                        && entry.metadata() == metadata
                })
            });
        if same {
            return Ok(());
        }
        Err(format!(
            "{member} has other names at {position} than the log: {:?}, not {expected:?}",
            page.entries
        ))
    }
}

impl Inner {
    fn tip(&self) -> u64 {
        self.names.len() as u64 - 1
    }

    fn led_changes(&mut self, led: Led) -> Result<(), String> {
        let passed_on = led.epoch == self.led.epoch + 1 && led.leader.is_some();
        let vacated = led.epoch == self.led.epoch && led.leader.is_none();
        if !passed_on && !vacated {
            return Err(format!("the leader's key says {led:?} after {:?}", self.led));
        }
        if let Some(before) = &self.led.leader {
            let session: SessionId = before.token.into();
            let is_there = self.sessions.contains(&self.records.session(session));
            if is_there && !self.leaving.contains(&session) {
                return Err(format!("{before:?} is deposed, though it is there and has not left: {led:?}"));
            }
        }
        self.counts.leaders += u64::from(passed_on);
        self.led = led;
        Ok(())
    }

    fn batch(&mut self, record: Record) -> Result<(), String> {
        let position = record.position;
        if position != self.tip() + 1 {
            return Err(format!("batch {position} is committed behind {}", self.tip()));
        }
        if record.epoch < self.epoch {
            return Err(format!(
                "batch {position} of epoch {} comes behind epoch {}",
                record.epoch, self.epoch
            ));
        }
        if record.epoch != self.led.epoch || self.led.leader.is_none() {
            return Err(format!(
                "batch {position} of epoch {} is committed while {:?}",
                record.epoch, self.led
            ));
        }
        let mut names = (**self.names.last().expect("there is always one")).clone();
        let mut given = Vec::new();
        for (owner, change) in record.changes {
            if let Recorded::Registered(name, ..) = &change {
                given.push((name.clone(), owner.session));
            }
            self.apply(&mut names, owner.session, change)
                .map_err(|flaw| format!("batch {position} of epoch {}: {flaw}", record.epoch))?;
        }
        self.epoch = record.epoch;
        self.counts.batches += 1;
        self.names.push(Arc::new(names));
        self.given.push(given);
        Ok(())
    }

    fn apply(&mut self, names: &mut Names, session: SessionId, change: Recorded) -> Result<(), String> {
        let is_there = self.sessions.contains(&self.records.session(session));
        let has = |names: &Names, name: &str, number: u64| {
            names.get(name).is_some_and(|(owner, its, _)| (*owner, *its) == (session, number))
        };
        match change {
            Recorded::Registered(name, number, metadata) => {
                if let Some(before) = names.get(&name) {
                    return Err(format!("{name} is given to {session} and is {before:?}'s"));
                }
                if !is_there {
                    return Err(format!("{name} is given to {session}, which has ended"));
                }
                if !self.granted.insert((session, number)) {
                    return Err(format!("{name} comes back to {session} by a copy of request {number}"));
                }
                self.owners.given(&name, session, number)?;
                names.insert(name, (session, number, metadata));
            }
            Recorded::Unregistered(name, number) => {
                if has(names, &name, number) {
                    self.owners.freed(&name, session, number)?;
                    names.remove(&name);
                }
            }
            Recorded::Described(name, number, metadata) => {
                if has(names, &name, number) {
                    names.insert(name, (session, number, metadata));
                }
            }
            Recorded::Ended if is_there => {
                return Err(format!("the names of {session} are freed, and it has not ended"));
            }
            Recorded::Ended => self.free(names, session, u64::MAX)?,
            Recorded::Left(through) => self.free(names, session, through)?,
        }
        Ok(())
    }

    fn free(&self, names: &mut Names, session: SessionId, through: u64) -> Result<(), String> {
        let is_freed = |(owner, number, _): &Registered| *owner == session && *number <= through;
        for (name, (_, number, _)) in names.iter().filter(|(_, registered)| is_freed(registered)) {
            self.owners.freed(name, session, *number)?;
        }
        names.retain(|_, registered| !is_freed(registered));
        Ok(())
    }
}

impl Auditor for Chronicle {
    fn took_effect(&mut self, commit: &Commit) -> Result<(), String> {
        let mut inner = self.0.lock();
        for write in &commit.writes {
            match write {
                Write::Set(key, value) => {
                    if key == inner.records.leader() {
                        let led = Elector::leader_at(key, value).map_err(|error| error.to_string())?;
                        inner.led_changes(led)?;
                    } else if key == inner.records.base() {
                        inner.counts.shortened += 1;
                    } else if key.as_bytes().starts_with(&inner.session_prefix) {
                        if inner.ended.contains(key) || !inner.sessions.insert(key.clone()) {
                            return Err(format!("session {key} began twice"));
                        }
                    } else if let Some(record) =
                        inner.records.batch(key, value).map_err(|error| error.to_string())?
                    {
                        inner.batch(record)?;
                    }
                }
                Write::Delete(key) if inner.sessions.remove(key) => {
                    inner.ended.insert(key.clone());
                }
                Write::Append(list, request) if list == inner.records.post() => {
                    inner.counts.posted += 1;
                    inner.posted.push(request.clone());
                }
                _ => {}
            }
        }
        Ok(())
    }
}
