//! What was measured means for failover and costs, by the model of docs/failover.md.

use crate::views::{Assumed, Costs, Finding, Measured, Promise, Verdict};

use super::{finding, ms};

/// A renewal that takes so many times the worst that was seen is still in time.
const ROOM: f64 = 6.0;

/// Which part of the commits that a store makes renewals may take.
const SHARE_MAX: f64 = 0.2;

/// The shortest ttl that can be set.
const TTL_MIN_MS: f64 = 1000.0;

/// How long nobody leads, by what happens to the leader.
#[allow(clippy::cast_precision_loss, reason = "times of days fit")]
pub(super) fn promises(assumed: &Assumed, measured: &Measured) -> Vec<Promise> {
    let (ttl, heartbeat) = (assumed.ttl_ms as f64, assumed.heartbeat_ms as f64);
    let Measured { connect_ms, read, commit, waking, .. } = measured;
    // Whoever is woken looks, and claims.
    let claim = (read.median_ms + commit.median_ms, read.worst_ms + commit.worst_ms);
    let told = (waking.median_ms + claim.0, waking.worst_ms + claim.1);
    let margin = ttl / 20.0;
    // A warden counts from the last renewal, and looks as often as it renews.
    let unproven = (ttl + margin - heartbeat, ttl + margin + ttl / 3.0);
    let promise = |case: &str, (from_ms, to_ms): (f64, f64), text: &str| Promise {
        case: case.to_owned(),
        from_ms,
        to_ms,
        text: text.to_owned(),
    };
    vec![
        promise(
            "it resigns, or hands over",
            (waking.median_ms, waking.worst_ms),
            "its own commit makes the next one leader",
        ),
        promise(
            "kill -9, another node on its machine",
            // Whoever ends a session may have to connect first to tell others.
            (told.0, connect_ms + told.1),
            "that node proves the death, ends the session, and the next one claims",
        ),
        promise(
            "kill -9, with a last will",
            // It connects to commit, and on some stores once more to tell others.
            (connect_ms + told.0, 2.0 * connect_ms + told.1),
            "its helper connects and ends the session; works alone on a machine, too",
        ),
        promise(
            "kill -9 without both, a pause, a cut network, a lost machine",
            unproven,
            "nobody can tell it from slowness: others wait for the ttl",
        ),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "no fleet is so large")]
pub(super) fn costs(assumed: &Assumed, measured: &Measured) -> Costs {
    let commits_per_second = assumed.nodes as f64 * 1000.0 / assumed.heartbeat_ms as f64;
    Costs { commits_per_second, share: commits_per_second / measured.commits_per_second.max(0.001) }
}

/// Whether the settings fit the store, and what to change.
#[allow(clippy::cast_precision_loss, reason = "times of days fit")]
pub(super) fn judge(assumed: &Assumed, measured: &Measured, costs: &Costs) -> Vec<Finding> {
    let (ttl, heartbeat) = (assumed.ttl_ms as f64, assumed.heartbeat_ms as f64);
    let worst = measured.commit.worst_ms;
    let shortest = (worst * ROOM * 3.0).max(TTL_MIN_MS);
    let what = format!("a renewal took {} at worst, and has {}", ms(worst), ms(heartbeat));
    let settings = if worst * 2.0 > heartbeat {
        let advice =
            format!("raise the ttl to {} or more, or sessions will end while their nodes live", ms(shortest));
        finding("ttl", Verdict::Bad, what, Some(advice))
    } else if worst * ROOM > heartbeat {
        let advice = format!("a ttl of {} would leave room for a store that is slow at times", ms(shortest));
        finding("ttl", Verdict::Doubtful, what, Some(advice))
    } else {
        let lower = format!(
            "it could be as short as {}, for faster failover where death can't be proven",
            ms(shortest)
        );
        finding("ttl", Verdict::Good, what, (shortest * 2.0 < ttl).then_some(lower))
    };
    let text = format!(
        "{} nodes renew {:.1} times a second, of {:.0} commits a second",
        assumed.nodes, costs.commits_per_second, measured.commits_per_second
    );
    let load = if costs.share > 1.0 {
        let advice =
            "raise the ttl and the heartbeat with it, or use a faster store: it can't keep up".to_owned();
        finding("load", Verdict::Bad, text, Some(advice))
    } else if costs.share > SHARE_MAX {
        let advice = "raise the ttl, and the heartbeat with it: little is left for anything else".to_owned();
        finding("load", Verdict::Doubtful, text, Some(advice))
    } else {
        finding("load", Verdict::Good, text, None)
    };
    vec![settings, load]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::Latency;

    fn measured(ms: f64) -> Measured {
        let latency = Latency { samples: 1, median_ms: ms, worst_ms: 2.0 * ms };
        Measured {
            connect_ms: 5.0,
            read: latency,
            commit: latency,
            waking: latency,
            commits_per_second: 100.0,
        }
    }

    fn assumed(ttl_ms: u64, nodes: u64) -> Assumed {
        Assumed { ttl_ms, heartbeat_ms: ttl_ms / 3, nodes }
    }

    #[test]
    fn where_the_ttl_decides_the_range_is_that_of_the_measurements() {
        let promises = promises(&assumed(1000, 3), &measured(1.0));
        let last = promises.last().unwrap();
        assert!((700.0..750.0).contains(&last.from_ms), "{last:?}");
        assert!((1380.0..1390.0).contains(&last.to_ms), "{last:?}");
        assert!(promises[..3].iter().all(|promise| promise.to_ms < 20.0), "{promises:?}");
        assert!(promises.iter().all(|promise| promise.from_ms <= promise.to_ms), "{promises:?}");
    }

    #[test]
    fn a_slow_store_and_a_large_fleet_are_judged() {
        let verdicts = |ttl_ms, nodes, ms| {
            let (assumed, measured) = (assumed(ttl_ms, nodes), measured(ms));
            let found = judge(&assumed, &measured, &costs(&assumed, &measured));
            found.into_iter().map(|finding| finding.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(15_000, 3, 1.0), [Verdict::Good, Verdict::Good]);
        assert_eq!(verdicts(1000, 3, 100.0), [Verdict::Bad, Verdict::Good]);
        assert_eq!(verdicts(1000, 3, 40.0), [Verdict::Doubtful, Verdict::Good]);
        assert_eq!(verdicts(15_000, 200, 1.0), [Verdict::Good, Verdict::Doubtful]);
        assert_eq!(verdicts(15_000, 2000, 1.0), [Verdict::Good, Verdict::Bad]);
    }
}
