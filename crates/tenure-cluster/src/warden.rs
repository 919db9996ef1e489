//! [`Warden`]: watches the sessions of others, and ends those that nobody renews.
//!
//! # What it promises
//! A session is ended only if its beat stood still for the whole ttl, and a margin, while this warden was looking on and could itself both
//! read and renew. Time in which it could not does not count: neither an outage of the store nor a pause of the warden
//! ends anybody's session.
//!
//! # How
//! Sessions form a ring, in the order of their ids. Each node watches the next few on it, all in a small cluster: so each session has several
//! wardens, the loss of some delays nothing, and a look is two questions in one read, whatever the size of the cluster. Where the next few
//! are all silent, more are looked at.
//!
//! 1. A look shows a beat in a version that the warden did not know: the count starts now, when the answer is there.
//! 2. Later looks show the same version. Each must come soon after the one before, and while the warden's own session is being renewed; else all counts
//!    start anew.
//! 3. Past the liveness window, the member is recorded as suspect.
//! 4. Past the ttl and the margin, the warden commits: ended, if the beat is still in that version.
//!
//! The gauge `tenure_member_last_heartbeat_timestamp_seconds`, with the label `node`, tells when a member that is watched was last seen renewed, by the
//! wall clock of this node.
//!
//! # What it never does
//! It compares no clocks, and it never takes a beat's word for when it was written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tenure_store::{
    Check, Commit, CommitError, Moment, Range, Read, StoreError, StoreExt as _, Version, latest,
};

use crate::{
    Cause, Keys, Member, MemberState, Session, SessionId, Settings,
    node::Node,
    session::{Evidence, Identity, end},
};

/// How many sessions a warden watches as a rule: each has as many wardens. Three would do for safety; with more, a third of a large cluster may die at
/// once and every session still has somebody who has been watching it.
const NEXT: usize = 16;

/// The most that it watches when those next to it are silent.
const NEXT_MAX: usize = 512;

/// What a warden is doing, for errors.
const LOOKING: &str = "look at sessions";

/// Whose sessions a warden watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Those of the nodes next to its own.
    Neighbours,
    /// All leases: those who hold them are no nodes, and watch nobody.
    Leases,
}

/// Watches the sessions of others.
#[derive(Debug)]
pub(crate) struct Warden {
    node: Arc<Node>,
    watch: Watch,
    session: latest::Receiver<Session>,
    watched: BTreeMap<SessionId, Watched>,
    /// When the last look was asked for.
    looked: Option<Moment>,
}

/// What a warden knows of a session.
#[derive(Clone, Debug)]
struct Watched {
    identity: Identity,
    /// The version of its beat.
    beat: Version,
    /// Since when it has been in that version, at least.
    since: Moment,
    suspected: bool,
}

impl Watched {
    /// When it may be ended, if it is not renewed.
    fn end(&self) -> Moment {
        let ttl = self.identity.ttl;
        self.since.after(ttl + Settings::margin(ttl))
    }

    fn suspicion(&self) -> Moment {
        self.since.after(self.identity.liveness_window)
    }

    fn is_silent(&self, now: Moment) -> bool {
        now > self.suspicion()
    }
}

impl Warden {
    pub(crate) fn new(node: Arc<Node>, session: latest::Receiver<Session>, watch: Watch) -> Self {
        Self { node, watch, session, watched: BTreeMap::new(), looked: None }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        loop {
            if let Err(error) = self.look().await {
                tracing::debug!(%error, "a warden could not look: its counts start anew");
                self.watched.clear();
            }
            self.node.env.sleep(self.pause()).await;
        }
    }

    /// Until the next look: as often as sessions are renewed, and as soon as one might be ended.
    fn pause(&self) -> Duration {
        let shortest = self.watched.values().map(|watched| watched.identity.ttl / 3).min();
        let interval = self.node.settings.renewal_interval;
        let interval = shortest.map_or(interval, |shortest| shortest.min(interval));
        let now = self.node.env.now();
        let due = self.watched.values().map(|watched| watched.end() - now).min();
        // Wardens that watch the same session should not all come at once: the first one suffices.
        let jitter = self.node.env.random_time(interval / 10);
        due.map_or(interval, |due| due.min(interval)).max(interval / 20) + jitter
    }

    /// The longest pause between two looks that count as one watch.
    fn gap_max(&self) -> Duration {
        self.node.settings.renewal_interval * 2
    }

    /// Whether this node itself renews its session these days: what it sees is then not due to an outage of the store.
    fn renews(&self) -> bool {
        let session = self.session.borrow();
        let settings = &self.node.settings;
        // Of the last renewal, sent before the answer to this look came.
        let left = session.remaining();
        let age = (settings.ttl - Settings::margin(settings.ttl)).saturating_sub(left);
        !left.is_zero() && age <= self.gap_max()
    }

    async fn look(&mut self) -> Result<(), StoreError> {
        let asked = self.node.env.now();
        let attentive = self.looked.is_some_and(|before| asked - before <= self.gap_max()) && self.renews();
        if !attentive && !self.node.settings.flaws().warden_counts_on {
            self.watched.clear();
        }
        self.looked = Some(asked);
        let beats = self.beats(asked).await?;
        let seen = self.node.env.now();
        let news = beats.iter().filter(|(id, _)| !self.watched.contains_key(id)).map(|(id, _)| *id).collect();
        let identities = self.identities(news).await?;
        let ids: BTreeSet<SessionId> = beats.iter().map(|(id, _)| *id).collect();
        self.watched.retain(|id, _| ids.contains(id));
        for (id, beat) in beats {
            if let Some(watched) = self.watched.get_mut(&id) {
                if watched.beat != beat {
                    (watched.beat, watched.since, watched.suspected) = (beat, seen, false);
                    // What holders of leases call themselves is theirs to make up, and no label.
                    if self.watch != Watch::Leases {
                        let node = watched.identity.node.to_string();
                        metrics::gauge!("tenure_member_last_heartbeat_timestamp_seconds", "node" => node)
                            .set(self.node.env.unix_time().as_secs_f64());
                    }
                }
            } else if let Some(identity) = identities.get(&id) {
                let identity = identity.clone();
                self.watched.insert(id, Watched { identity, beat, since: seen, suspected: false });
            }
        }
        self.judge(asked).await
    }

    /// The beats that are watched, in their versions: those next on the ring, or of all leases.
    async fn beats(&self, now: Moment) -> Result<Vec<(SessionId, Version)>, StoreError> {
        if self.watch == Watch::Leases {
            let found = self.node.bounded(LOOKING, self.node.scan(&self.node.keys.lease_beats())).await??;
            return found.iter().map(|item| Ok((Keys::session_of(&item.key)?, item.version))).collect();
        }
        let own = self.session.borrow().id();
        let silent = self.watched.values().filter(|watched| watched.is_silent(now)).count();
        let next = (NEXT + 2 * silent).min(NEXT_MAX).min(self.node.store.limits().page_items - 1);
        let all = self.node.keys.beats();
        // One more than is needed: our own is among those behind the start of the ring.
        let part = |range: Range| Read::Range { range, limit: next + 1 };
        let behind = part(all.after(&self.node.keys.beat(own)));
        let snapshot = self.node.bounded(LOOKING, self.node.store.read(vec![behind, part(all)])).await??;
        let mut beats = Vec::new();
        for index in 0..2 {
            for item in &snapshot.range(index).items {
                let id = Keys::session_of(&item.key)?;
                if id != own && beats.len() < next && !beats.iter().any(|(other, _)| *other == id) {
                    beats.push((id, item.version));
                }
            }
        }
        Ok(beats)
    }

    /// Who these sessions are. Those that have just ended are not among the answers.
    async fn identities(&self, ids: Vec<SessionId>) -> Result<BTreeMap<SessionId, Identity>, StoreError> {
        let mut found = BTreeMap::new();
        for ids in ids.chunks(self.node.store.limits().read_questions) {
            let keys: Vec<_> = ids.iter().map(|id| self.node.keys.session(*id)).collect();
            let reads = keys.iter().cloned().map(Read::Key).collect();
            let snapshot = self.node.bounded(LOOKING, self.node.store.read(reads)).await??;
            for (index, (id, key)) in ids.iter().zip(&keys).enumerate() {
                if let Some(versioned) = snapshot.key(index) {
                    found.insert(*id, Identity::decode(key, &versioned.value)?);
                }
            }
        }
        Ok(found)
    }

    /// Suspects and ends whom the look that was asked for at this moment showed to be silent.
    async fn judge(&mut self, asked: Moment) -> Result<(), StoreError> {
        let due: Vec<(SessionId, Watched)> = self
            .watched
            .iter()
            .filter(|(_, watched)| asked > watched.end() || watched.is_silent(asked) && !watched.suspected)
            .map(|(id, watched)| (*id, watched.clone()))
            .collect();
        for (id, watched) in due {
            let expired = asked > watched.end();
            let judging = async {
                if expired {
                    end(&self.node, id, Evidence::Unrenewed(watched.beat), Cause::Expired).await.map(|_| ())
                } else {
                    self.suspect(id, &watched).await
                }
            };
            match self.node.bounded(LOOKING, judging).await {
                Ok(Ok(())) if expired => drop(self.watched.remove(&id)),
                Ok(Ok(())) => {
                    if let Some(watched) = self.watched.get_mut(&id) {
                        watched.suspected = true;
                    }
                }
                // What is wrong with one must not spare the others; the next look tries again.
                Ok(Err(error)) => {
                    tracing::warn!(session = %id, %error, "a silent session could not be dealt with");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Records that a member is suspect, unless it is renewed or somebody has recorded it already.
    async fn suspect(&self, id: SessionId, watched: &Watched) -> Result<(), CommitError> {
        let keys = &self.node.keys;
        let key = keys.member(&watched.identity.node);
        let Some(found) = self.node.store.get(&key).await? else { return Ok(()) };
        let member = Member::decode(&key, &found.value)?;
        if member.session != id || member.state != MemberState::Live {
            return Ok(());
        }
        let suspect = member.turned(MemberState::Suspect, self.node.env.unix_time()).encode();
        let commit = Commit::new()
            .check(Check::Version(keys.beat(id), watched.beat))
            .check(Check::Version(key.clone(), found.version))
            .set(key, suspect.clone())
            .append(keys.changes(), suspect);
        match self.node.store.commit(commit).await {
            Ok(_) => {
                tracing::info!(node = %member.node, session = %id, "member suspected: its session is not renewed");
                Ok(())
            }
            Err(CommitError::Conflict(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
