//! [`Sample`]: what the store did just now, asked from here.
//!
//! All that is written is below `("doctor", number)` of the cluster, with a number that nobody else has, and is removed. What a doctor that was killed has left there is removed by the
//! next one, an hour later.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use tenure::{
    cluster::{Member, MemberState, Onlooker},
    store::{
        Check, Commit, CommitError, Conflict, Env, Key, Limits, Moment, Name, Part, Range, Store,
        StoreExt as _, Tuple,
    },
};

use super::{finding, ms};
use crate::{
    exit::Exit,
    options::StoreOptions,
    views::{Finding, Latency, Measured, Verdict, millis},
};

/// How long each step may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many commits are made at once to find how many a store makes.
const AT_ONCE: u64 = 32;

/// How long the rate of commits is measured.
const RATE_TIME: Duration = Duration::from_millis(500);

/// How long what a doctor left may stay.
const LEFT_MS: u64 = 3_600_000;

/// How much wall clocks may differ before it is told.
const CLOCKS: Duration = Duration::from_secs(2);

/// All that was found.
pub(super) struct Sample {
    pub(super) findings: Vec<Finding>,
    pub(super) measured: Measured,
    pub(super) limits: Limits,
    pub(super) members: Present,
}

/// Who is there, and what time they have.
pub(super) struct Present {
    /// Each with when it was seen last, by its own wall clock.
    members: Vec<(Member, Duration)>,
    now: Duration,
}

impl Sample {
    /// Asks the store.
    ///
    /// # Errors
    /// When it can't be reached, or a step takes too long: then there is nothing more to find.
    pub(super) async fn take(options: &StoreOptions, cluster: &Name, samples: u64) -> anyhow::Result<Self> {
        let env = Env::system();
        let (began, wall) = (env.now(), env.unix_time());
        let store = within("connect", options.open()).await?;
        let connect_ms = since(&env, began);
        // Woken as another process is.
        let other = within("connect again", options.open()).await?;
        let look = Onlooker::new(Arc::clone(&store), cluster.clone());
        let place = look.keys().area("doctor").int(env.random_u64() >> 1);
        let patient = Patient { store, other, env, place, samples };
        let measured = patient.examine(connect_ms).await;
        let removed = within("remove what was written", patient.remove(&look)).await;
        let (mut findings, measured) = measured?;
        removed?;
        let (env, limits) = (&patient.env, patient.store.limits());
        findings
            .insert(0, finding("store", Verdict::Good, format!("it was opened in {}", ms(connect_ms)), None));
        findings.push(clock(env, began, wall));
        findings.push(judge_limits(limits));
        let members = look.members().list().await?.into_iter();
        let members = members.map(|listed| (listed.member, listed.last_seen)).collect();
        Ok(Self { findings, measured, limits, members: Present { members, now: env.unix_time() } })
    }
}

/// A store that is examined.
struct Patient {
    store: Arc<dyn Store>,
    /// The same, over connections of its own.
    other: Arc<dyn Store>,
    env: Env,
    place: Tuple,
    samples: u64,
}

impl Patient {
    fn key(&self, word: &str) -> Key {
        self.place.clone().text(word).key()
    }

    /// The time, for whoever finds it later.
    fn stamp(&self) -> Vec<u8> {
        millis(self.env.unix_time()).to_be_bytes().to_vec()
    }

    async fn examine(&self, connect_ms: f64) -> anyhow::Result<(Vec<Finding>, Measured)> {
        let rights =
            within("check the rights", self.rights()).await.map_err(|error| match Exit::of(&error) {
                Exit::Unavailable => error,
                _ => error.context(Exit::Unwell.context("nodes could not work here")),
            })?;
        let read = within(
            "measure reads",
            self.repeat(async || {
                self.store.get(&self.key("value")).await?;
                Ok(())
            }),
        )
        .await?;
        let commit = within(
            "measure commits",
            self.repeat(async || {
                self.store.commit(Commit::new().set(self.key("value"), self.stamp())).await?;
                Ok(())
            }),
        )
        .await?;
        let waking = within("measure wakings", self.wakings()).await?;
        let commits_per_second = within("measure the rate of commits", self.rate()).await?;
        let measured = Measured { connect_ms, read, commit, waking, commits_per_second };
        Ok((vec![rights], measured))
    }

    /// Whether all that nodes do is done, and refused where it must be.
    async fn rights(&self) -> anyhow::Result<Finding> {
        let (value, list) = (self.key("value"), self.key("list"));
        let first = Commit::new().check(Check::Absent(value.clone())).set(value.clone(), self.stamp());
        self.store.commit(first.clone().append(list.clone(), "entry")).await.context("write")?;
        let bad = |text: &str| {
            let advice = "no node can rely on this store: tell whoever runs it, and do not use it".to_owned();
            Ok(finding("rights", Verdict::Bad, text, Some(advice)))
        };
        match self.store.commit(first).await {
            Err(CommitError::Conflict(Conflict::Check { .. })) => {}
            Err(error) => return Err(anyhow::Error::new(error).context("write what must be refused")),
            Ok(_) => return bad("a commit was made though its check did not hold"),
        }
        if self.other.get(&value).await.context("read")?.is_none() {
            return bad("what was committed can't be seen over another connection");
        }
        let entries = self.other.entries(&list, 2).await.context("read entries")?.items;
        let [entry] = entries.as_slice() else { return bad("an entry that was appended is not there") };
        self.store.commit(Commit::new().remove(list.clone(), entry.id.clone())).await.context("remove")?;
        let text = "reading, writing, appending, removing and refusing work";
        Ok(finding("rights", Verdict::Good, text, None))
    }

    async fn repeat(&self, act: impl AsyncFn() -> anyhow::Result<()>) -> anyhow::Result<Latency> {
        let mut times = Vec::new();
        for _ in 0..self.samples {
            let began = self.env.now();
            act().await?;
            times.push(since(&self.env, began));
        }
        Ok(latency(times))
    }

    async fn wakings(&self) -> anyhow::Result<Latency> {
        let key = self.key("bell");
        let mut watch = self.other.watch(Range::Key(key.clone()));
        let mut times = Vec::new();
        // The first one may be woken because the watch is ready, and is not counted.
        for _ in 0..=self.samples {
            let began = self.env.now();
            let receipt = self.store.commit(Commit::new().set(key.clone(), self.stamp())).await?;
            loop {
                watch.changed().await;
                if self.other.get(&key).await?.is_some_and(|found| found.version == receipt.version) {
                    break;
                }
            }
            times.push(since(&self.env, began));
            while self.env.timeout(Duration::ZERO, watch.changed()).await.is_ok() {}
        }
        times.remove(0);
        Ok(latency(times))
    }

    /// How many commits a second many at once make, each to a key of its own.
    #[allow(clippy::cast_precision_loss, reason = "there are not so many")]
    async fn rate(&self) -> anyhow::Result<f64> {
        let began = self.env.now();
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..AT_ONCE {
            let (store, env) = (Arc::clone(&self.store), self.env.clone());
            let (key, stamp) = (self.place.clone().text("rate").int(writer).key(), self.stamp());
            writers.spawn(async move {
                let mut made = 0_u64;
                while env.now() - began < RATE_TIME {
                    store.commit(Commit::new().set(key.clone(), stamp.clone())).await?;
                    made += 1;
                }
                Ok::<u64, CommitError>(made)
            });
        }
        let mut made = 0;
        while let Some(written) = writers.join_next().await {
            made += written.context("a writer failed")??;
        }
        Ok(made as f64 * 1000.0 / since(&self.env, began))
    }

    /// Removes all that was written here, and what others left long ago.
    async fn remove(&self, look: &Onlooker) -> anyhow::Result<()> {
        self.store.commit(Commit::new().delete_range(self.place.range())).await?;
        let area = look.keys().area("doctor");
        let depth = area.parts().len();
        let now = millis(self.env.unix_time());
        let limit = self.store.limits().page_items;
        for item in self.store.scan(&area.range(), limit).await?.items {
            let written = <[u8; 8]>::try_from(&item.value[..]).map_or(0, u64::from_be_bytes);
            if now.saturating_sub(written) < LEFT_MS {
                continue;
            }
            if let Some(Part::Int(number)) = Tuple::decode(&item.key)?.parts().get(depth) {
                let left = look.keys().area("doctor").int(*number).range();
                self.store.commit(Commit::new().delete_range(left)).await?;
            }
        }
        Ok(())
    }
}

/// Does a step, if it does not take too long.
async fn within<T>(what: &str, step: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    match Env::system().timeout(PATIENCE, step).await {
        Ok(done) => done.with_context(|| format!("can't {what}")),
        Err(_elapsed) => {
            let words = format!("can't {what}: the store did not answer within {PATIENCE:?}");
            Err(Exit::Unavailable.context(words).into())
        }
    }
}

fn since(env: &Env, began: Moment) -> f64 {
    (env.now() - began).as_secs_f64() * 1000.0
}

fn latency(mut times: Vec<f64>) -> Latency {
    times.sort_by(f64::total_cmp);
    Latency {
        samples: times.len() as u64,
        median_ms: times.get(times.len() / 2).copied().unwrap_or_default(),
        worst_ms: times.last().copied().unwrap_or_default(),
    }
}

/// Whether the wall clock went as fast as the one that decides.
fn clock(env: &Env, began: Moment, wall: Duration) -> Finding {
    let (passed, wall_passed) = (env.now() - began, env.unix_time().saturating_sub(wall));
    if passed.abs_diff(wall_passed) > CLOCKS {
        let text = format!("the wall clock went {wall_passed:?} while {passed:?} passed");
        let advice =
            "nothing is decided by it, but logs and histories will mislead: look after its synchronisation";
        return finding("clock", Verdict::Doubtful, text, Some(advice.to_owned()));
    }
    finding("clock", Verdict::Good, "the wall clock goes as fast as the clock of this machine's boot", None)
}

fn judge_limits(limits: Limits) -> Finding {
    let text = format!(
        "values up to {} KiB, commits up to {} operations and {} KiB",
        limits.value_bytes / 1024,
        limits.commit_operations,
        limits.commit_bytes / 1024
    );
    if limits.min(Limits::PORTABLE) == Limits::PORTABLE {
        return finding("limits", Verdict::Good, text, None);
    }
    let advice = "they are below what programs for all stores may count on".to_owned();
    finding("limits", Verdict::Doubtful, text, Some(advice))
}

impl Present {
    pub(super) fn live(&self) -> u64 {
        self.members.iter().filter(|(member, _)| member.state == MemberState::Live).count() as u64
    }

    /// What the members show: suspects, other ttls, other clocks.
    pub(super) fn judge(&self, ttl: Duration) -> Vec<Finding> {
        let here: Vec<_> = self.members.iter().filter(|(member, _)| member.is_here()).collect();
        if here.is_empty() {
            return Vec::new();
        }
        let names = |wanted: &dyn Fn(&(Member, Duration)) -> bool| {
            let names: Vec<&str> = here
                .iter()
                .filter(|each| wanted(each))
                .map(|(member, _)| member.node.as_str())
                .take(5)
                .collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let mut findings = Vec::new();
        match names(&|(member, _)| member.state == MemberState::Suspect) {
            Some(suspects) => {
                let advice = "look whether these processes run, and reach the store".to_owned();
                let text = format!("not renewed for long: {suspects}");
                findings.push(finding("members", Verdict::Doubtful, text, Some(advice)));
            }
            None => {
                findings.push(finding("members", Verdict::Good, format!("{} are live", here.len()), None));
            }
        }
        if let Some(others) = names(&|(member, _)| member.ttl != ttl) {
            let text = format!("these have another ttl than {}: {others}", ms(ttl.as_secs_f64() * 1000.0));
            let advice = "give --ttl to see what theirs promises".to_owned();
            findings.push(finding("ttls", Verdict::Good, text, Some(advice)));
        }
        let ahead = |(_, seen): &(Member, Duration)| *seen > self.now + CLOCKS;
        let behind = |(member, seen): &(Member, Duration)| {
            member.state == MemberState::Live && *seen + member.ttl + CLOCKS < self.now
        };
        if let Some(others) = names(&|each| ahead(each) || behind(each)) {
            let text = format!("the wall clocks of these differ from this machine's: {others}");
            let advice =
                "nothing is decided by them, but histories will mislead: look after their synchronisation";
            findings.push(finding("clocks", Verdict::Doubtful, text, Some(advice.to_owned())));
        }
        findings
    }
}
