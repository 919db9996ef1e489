//! [`Meters`]: what a member measures, at hand: to find a metric by its labels costs more than most of what is measured.

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use tenure_store::Name;

/// What a member measures. The recorder is the one that is there when the registry is opened.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) reigns: Counter,
    pub(crate) commit_seconds: Histogram,
    pub(crate) batch_changes: Histogram,
    pub(crate) names: Gauge,
    pub(crate) lag_batches: Gauge,
    pub(crate) gaps: Counter,
    pub(crate) requests: Requests,
    pub(crate) messages: Messages,
}

/// What came of requests.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) done: Counter,
    pub(crate) taken: Counter,
    pub(crate) lost: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) unknown: Counter,
}

/// What came of messages.
#[derive(Debug)]
pub(crate) struct Messages {
    pub(crate) delivered: Counter,
    pub(crate) answered: Counter,
    pub(crate) unanswered: Counter,
    pub(crate) timed_out: Counter,
    pub(crate) refused: Counter,
}

impl Meters {
    pub(crate) fn new(registry: &Name) -> Self {
        let of = || registry.to_shared();
        let request = |outcome: &'static str| counter!("tenure_registry_requests_total", "registry" => of(), "outcome" => outcome);
        let message = |outcome: &'static str| counter!("tenure_registry_messages_total", "registry" => of(), "outcome" => outcome);
        Self {
            reigns: counter!("tenure_registry_reigns_total", "registry" => of()),
            commit_seconds: histogram!("tenure_registry_commit_seconds", "registry" => of()),
            batch_changes: histogram!("tenure_registry_batch_changes", "registry" => of()),
            names: gauge!("tenure_registry_names", "registry" => of()),
            lag_batches: gauge!("tenure_registry_lag_batches", "registry" => of()),
            gaps: counter!("tenure_registry_gaps_total", "registry" => of()),
            requests: Requests {
                done: request("done"),
                taken: request("taken"),
                lost: request("lost"),
                unavailable: request("unavailable"),
                unknown: request("unknown"),
            },
            messages: Messages {
                delivered: message("delivered"),
                answered: message("answered"),
                unanswered: message("unanswered"),
                timed_out: message("timed_out"),
                refused: message("refused"),
            },
        }
    }
}
