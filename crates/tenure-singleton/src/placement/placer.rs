//! [`Placer`]: the node that decides, by being elected. Every node that spreads something stands for it; what it has
//! decided is in the store, so that the next one goes on from there.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tenure_cluster::{ClusterError, Ground, Leadership, SessionId};
use tenure_store::{Check, Commit, CommitError, Conflict, Moment, Name, StoreError, record::Encoder};

use super::{
    COLLECT, PAGES_MAX,
    assess::{Ledger, Pace},
    beacon_interval,
    book::Draft,
    census::Census,
    patience,
    record::{Post, beacon},
    store,
};

/// The election of the placer. No user's election can have this name.
const OFFICE: &str = "tenure/placer";

/// How long a new placer waits before it decides: nodes that are started together should be seen together.
const FIRST: Duration = Duration::from_millis(250);

/// Every so many patiences everything is read again, whatever watches have told.
const SLOW_LOOK: u32 = 2;

/// For so many patiences a node is not given what it did not take.
const BARRED: u32 = 5;

/// Stands for the office, and places singletons while it has it.
#[derive(Debug)]
pub(crate) struct Placer {
    pub(crate) ground: Ground,
    /// How many moves may be begun in one renewal interval.
    pub(crate) moves: Arc<AtomicUsize>,
}

/// Why a pass was not finished.
enum Trouble {
    /// The office is lost.
    Lost,
    /// It should be tried again.
    Passing(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Passing(error.to_string())
    }
}

/// One time in office.
struct Reign<'a> {
    placer: &'a Placer,
    leadership: &'a Leadership,
    census: Census,
    ledger: Ledger,
    beacon_due: Moment,
    look_due: Moment,
}

impl Placer {
    /// Runs until its task is ended, or the node has left.
    pub(crate) async fn run(self) {
        let Ok(name) = OFFICE.parse::<Name>() else { return };
        let election = self.ground.election(name);
        loop {
            match election.campaign().await {
                Ok(leadership) => {
                    tracing::info!(term = %leadership.term(), "this node places singletons");
                    tokio::select! {
                        biased;
                        () = leadership.lost() => {}
                        Err(error) = self.reign(&leadership) => {
                            tracing::warn!(%error, "singletons can't be placed by this node: another tries");
                        }
                    }
                }
                Err(ClusterError::Left) => return,
                Err(error) => tracing::debug!(%error, "this node could not stand as the placer"),
            }
            // Whoever stands next has its chance.
            self.ground.env().sleep(self.ground.settings().renewal_interval).await;
        }
    }

    /// Places singletons for as long as that can be done.
    async fn reign(&self, leadership: &Leadership) -> Result<(), StoreError> {
        let env = self.ground.env();
        let now = env.now();
        let census = Census::open(&self.ground).await?;
        let ledger = Ledger::default();
        let look_due = now.after(patience(&self.ground) * SLOW_LOOK);
        let mut reign = Reign { placer: self, leadership, census, ledger, beacon_due: now, look_due };
        env.sleep(FIRST).await;
        loop {
            let soon = self.ground.settings().renewal_interval / 8;
            let wake = match reign.pass().await {
                Ok(wake) => wake,
                // The office has passed on, though its watch has not told yet.
                Err(Trouble::Lost) => return Ok(()),
                Err(Trouble::Passing(error)) => {
                    tracing::debug!(error, "singletons could not be placed: it is tried again");
                    reign.census.doubt_posts();
                    env.now().after(soon)
                }
            };
            let left = wake - env.now();
            tokio::select! {
                biased;
                changed = reign.census.changed() => changed?,
                () = env.sleep(left) => {}
            }
            // What comes together is decided together.
            env.sleep(COLLECT).await;
        }
    }

    fn pace(&self) -> Pace {
        let patience = patience(&self.ground);
        Pace {
            patience,
            barred: patience * BARRED,
            moves: self.moves.load(Ordering::Relaxed),
            interval: self.ground.settings().renewal_interval,
        }
    }
}

impl Reign<'_> {
    /// Reads what is new, decides, and tells. Returns when to do so again, if nothing happens.
    async fn pass(&mut self) -> Result<Moment, Trouble> {
        let env = self.placer.ground.env().clone();
        let now = env.now();
        if self.look_due <= now {
            self.look_due = now.after(patience(&self.placer.ground) * SLOW_LOOK);
            self.census.doubt_all();
        }
        self.census.read().await?;
        let decision = self.ledger.decide(&self.census, self.placer.pace(), env.now());
        let mut drafts = Vec::new();
        for (session, posts) in &decision.posts {
            if let Some(seen) = self.census.nodes.get(session) {
                drafts.extend(seen.posts.plan(posts).into_iter().map(|draft| (*session, draft)));
            }
        }
        while !drafts.is_empty() {
            let batch = drafts.drain(..drafts.len().min(PAGES_MAX)).collect();
            self.write(batch).await?;
        }
        if self.beacon_due <= env.now() {
            self.light().await?;
            self.beacon_due = env.now().after(beacon_interval(&self.placer.ground));
        }
        let due = self.beacon_due.min(self.look_due);
        Ok(decision.again.map_or(due, |again| again.min(due)))
    }

    /// Tells nodes what they are to run, if this office and their sessions are still there.
    async fn write(&mut self, batch: Vec<(SessionId, Draft<Post>)>) -> Result<(), Trouble> {
        let ground = &self.placer.ground;
        let mut commit = Commit { checks: self.leadership.guard(), writes: Vec::new() };
        let mut sessions: Vec<SessionId> = batch.iter().map(|(session, _)| *session).collect();
        sessions.dedup();
        for session in sessions {
            commit = commit.check(Check::Present(ground.keys().session(session)));
        }
        let pages = batch.iter().map(|(_, draft)| (draft.check.clone(), draft.write.clone())).collect();
        let version = self.commit(commit, pages).await?;
        for (session, draft) in batch {
            if let Some(seen) = self.census.nodes.get_mut(&session) {
                seen.posts.landed(vec![draft], version);
            }
        }
        Ok(())
    }

    /// Shows that a placer acts.
    async fn light(&self) -> Result<(), Trouble> {
        let ground = &self.placer.ground;
        let light = Encoder::new(1).number(self.leadership.term().0).finish();
        let commit = self.leadership.guarded(Commit::new().set(beacon(ground.keys()), light));
        self.commit(commit, Vec::new()).await.map(drop)
    }

    async fn commit(
        &self,
        commit: Commit,
        pages: Vec<store::Change>,
    ) -> Result<tenure_store::Version, Trouble> {
        let guard = self.leadership.guard().len();
        match store::commit(&self.placer.ground, commit, pages).await {
            Ok(version) => Ok(version),
            Err(CommitError::Conflict(Conflict::Check { index, .. })) if index < guard => Err(Trouble::Lost),
            Err(error) => Err(Trouble::Passing(error.to_string())),
        }
    }
}
