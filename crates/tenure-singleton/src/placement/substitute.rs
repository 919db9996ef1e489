//! [`Substitute`]: when no placer acts, singletons that are free are taken by whoever comes first.
//!
//! It is rough: each node tries what it could run, in an order of its own, a few at a time, until it has its share of
//! them; and if some are left a while later, those too. What others have already is left to them, at the price of a
//! question. When a placer acts again, it evens out what came of it.

use std::{sync::Arc, time::Duration};

use tenure_cluster::Ground;
use tenure_store::{Moment, Name, StoreExt as _, Version};

use super::{board::Board, record::beacon, store};

/// In so many parts is tried what a node could run.
const PARTS: usize = 16;

/// But at least so many at a time.
const PART_MIN: usize = 8;

/// So many rounds over all that it could run are made for its share alone.
const FAIR_ROUNDS: u32 = 2;

/// Takes what is free while no placer acts.
#[derive(Debug)]
pub(crate) struct Substitute {
    ground: Ground,
    board: Arc<Board>,
    seen: Option<Version>,
    /// When the beacon was seen to change, or the first look.
    since: Moment,
    helping: bool,
    /// How many rounds were made since it began to help.
    rounds: u32,
}

impl Substitute {
    pub(crate) fn new(ground: Ground, board: Arc<Board>) -> Self {
        let since = ground.env().now();
        Self { ground, board, seen: None, since, helping: false, rounds: 0 }
    }

    /// Runs until its task is ended.
    pub(crate) async fn run(mut self) {
        loop {
            let look = super::beacon_interval(&self.ground);
            self.rest(look).await;
            if self.ground.session().ended().is_some() {
                continue;
            }
            self.look().await;
            if self.helping {
                self.help().await;
            }
        }
    }

    async fn rest(&self, time: Duration) {
        let env = self.ground.env();
        env.sleep(time - time / 8 + env.random_time(time / 4)).await;
    }

    /// Whether a placer acts. When that can't be found out, nothing could be taken either.
    async fn look(&mut self) {
        let key = beacon(self.ground.keys());
        let Ok(Ok(found)) = store::bounded(&self.ground, self.ground.store().get(&key)).await else { return };
        let (found, now) = (found.map(|found| found.version), self.ground.env().now());
        if found != self.seen {
            (self.seen, self.since) = (found, now);
        }
        let silent = now - self.since > silence(&self.ground);
        if silent && !self.helping {
            tracing::warn!("nobody has placed singletons for long: each node takes what is free");
        }
        if !silent && self.helping {
            self.board.end_help();
            self.rounds = 0;
        }
        self.helping = silent;
    }

    /// Tries to get what is free, part by part.
    async fn help(&mut self) {
        let mut names = self.board.idle();
        let running = self.board.running().len();
        let share = match self.ground.members().list().await {
            _ if self.rounds >= FAIR_ROUNDS => usize::MAX,
            Ok(all) => {
                let here = all.iter().filter(|listed| listed.member.is_here()).count();
                (names.len() + running).div_ceil(here.max(1))
            }
            Err(_) => return,
        };
        self.rounds += 1;
        self.shuffle(&mut names);
        let part = (names.len() / PARTS).max(PART_MIN);
        while !names.is_empty() {
            let room = share.saturating_sub(self.board.running().len());
            if room == 0 {
                break;
            }
            let now: Vec<Name> = names.drain(..part.min(room).min(names.len())).collect();
            self.board.help_with(&now);
            self.rest(self.ground.settings().renewal_interval / 8).await;
        }
    }

    fn shuffle(&self, names: &mut [Name]) {
        for last in (1..names.len()).rev() {
            let other = self.ground.env().random_in(0..last as u64 + 1);
            names.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

/// How long the beacon may stay the same: longer than it takes another placer to follow one that has died, with its
/// session.
fn silence(ground: &Ground) -> Duration {
    ground.settings().ttl * 5 / 2
}
