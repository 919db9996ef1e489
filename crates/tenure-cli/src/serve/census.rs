//! [`Census`]: what the metrics tell of the whole cluster, counted when they are asked for.
//!
//! Nobody who does not ask pays for it. Whoever asks often is told what was counted before: a count comes at most every few seconds, and takes at most a twentieth of the time, however
//! large the cluster is. One that takes longer than somebody can wait goes on, and is there for the next.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure::{
    cluster::{MemberState, Onlooker},
    registry::RegistryView,
    server::{Backlog, KindSeen, Survey as _},
    store::{Moment, StoreError},
};

use super::metrics::{Gauges, count};
use crate::views::{BUSY_MAX, State};

/// The least time between two counts.
const REST_MIN: Duration = Duration::from_secs(5);

/// How many times as long as a count took nobody counts again.
const REST_TIMES: u32 = 20;

/// How long somebody waits for a count: less than Prometheus does by default.
const PATIENCE: Duration = Duration::from_secs(5);

/// A count that takes longer has lost its store.
const COUNT_TIME: Duration = Duration::from_secs(120);

/// How many kinds of servers are counted: clients can make them up.
const KINDS_MAX: usize = 200;

/// Counts what there is in a cluster.
#[derive(Debug)]
pub(crate) struct Census {
    look: Onlooker,
    /// When it may be counted again. Locked while somebody counts.
    due: tokio::sync::Mutex<Moment>,
    last: Mutex<(Moment, Counted)>,
}

/// What there was.
#[derive(Clone, Debug, Default)]
struct Counted {
    members: [u64; 3],
    /// How long the longest silent one that is here has been silent.
    silence: Duration,
    led: u64,
    vacant: u64,
    candidates: u64,
    registries: u64,
    kinds: Vec<(KindSeen, Backlog)>,
}

impl Census {
    pub(crate) fn new(look: Onlooker) -> Arc<Self> {
        let now = look.env().now();
        Arc::new(Self {
            look,
            due: tokio::sync::Mutex::new(now),
            last: Mutex::new((now, Counted::default())),
        })
    }

    /// Tells what there is, counted anew if that is due.
    pub(crate) async fn tell(self: &Arc<Self>, gauges: &mut Gauges) {
        let census = Arc::clone(self);
        let counting = tokio::spawn(async move { census.count().await });
        // Who can't wait is told what was counted before.
        let _ = self.look.env().timeout(PATIENCE, counting).await;
        let (at, counted) = self.last.lock().clone();
        counted.tell(self.look.env().now() - at, gauges);
    }

    async fn count(&self) {
        let env = self.look.env();
        // Somebody else may be counting.
        let Ok(mut due) = self.due.try_lock() else { return };
        let begun = env.now();
        if *due > begun {
            return;
        }
        match env.timeout(COUNT_TIME, Counted::read(&self.look)).await {
            Ok(Ok(counted)) => *self.last.lock() = (begun, counted),
            Ok(Err(error)) => tracing::warn!(%error, "the cluster can't be counted: its metrics are old"),
            Err(_) => tracing::warn!("the cluster was not counted in {COUNT_TIME:?}: its metrics are old"),
        }
        let took = env.now() - begun;
        *due = env.now().after(REST_MIN.max(took * REST_TIMES));
    }
}

impl Counted {
    async fn read(look: &Onlooker) -> Result<Self, StoreError> {
        let mut counted = Self::default();
        let now = look.env().unix_time();
        for listed in look.members().list().await? {
            counted.members[match listed.member.state {
                MemberState::Live => 0,
                MemberState::Suspect => 1,
                _ => 2,
            }] += 1;
            if listed.member.is_here() {
                counted.silence = counted.silence.max(now.saturating_sub(listed.last_seen));
            }
        }
        for seen in look.elections(None, usize::MAX).await? {
            let count = if seen.leader.is_some() { &mut counted.led } else { &mut counted.vacant };
            *count += 1;
            counted.candidates += seen.waiting as u64;
        }
        counted.registries = RegistryView::all(look).await?.len() as u64;
        for kind in look.kinds(None, KINDS_MAX).await? {
            let backlog = look.backlog(&kind.kind, BUSY_MAX).await?;
            counted.kinds.push((kind, backlog));
        }
        Ok(counted)
    }

    fn tell(&self, age: Duration, gauges: &mut Gauges) {
        gauges.tell("tenure_cluster_look_age_seconds", &[], age.as_secs_f64());
        for (state, members) in [State::Live, State::Suspect, State::Gone].into_iter().zip(self.members) {
            gauges.tell("tenure_cluster_members", &[("state", state.as_str())], count(members));
        }
        gauges.tell("tenure_cluster_heartbeat_age_seconds", &[], self.silence.as_secs_f64());
        for (state, elections) in [("led", self.led), ("vacant", self.vacant)] {
            gauges.tell("tenure_cluster_elections", &[("state", state)], count(elections));
        }
        gauges.tell("tenure_cluster_candidates", &[], count(self.candidates));
        gauges.tell("tenure_cluster_registries", &[], count(self.registries));
        let mut of_kinds = |gauge, value: fn(&KindSeen, &Backlog) -> f64| {
            for (kind, backlog) in &self.kinds {
                gauges.tell(gauge, &[("kind", kind.kind.as_str())], value(kind, backlog));
            }
        };
        of_kinds("tenure_cluster_servers", |kind, _| count(kind.servers));
        of_kinds("tenure_cluster_busy_servers", |kind, _| count(kind.busy));
        of_kinds("tenure_cluster_consumers", |kind, _| count(kind.consumers));
        of_kinds("tenure_cluster_dead_letters", |kind, _| count(kind.dead_letters));
        of_kinds("tenure_cluster_queue_messages", |_, backlog| count(backlog.waiting));
        of_kinds("tenure_cluster_queue_age_seconds", |_, backlog| {
            backlog.oldest.unwrap_or_default().as_secs_f64()
        });
    }
}
