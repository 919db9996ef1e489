//! [`Teller`]: tells of a singleton, to whoever listens.

use std::sync::Arc;

use tenure_store::{Name, latest};
use tokio::sync::broadcast;

use crate::{ChildKind, Event, Phase, Status, seat::Told};

/// How many events are kept for a listener that is slow.
const EVENTS_MAX: usize = 256;

pub(crate) type Hook = Arc<dyn Fn(&Event) + Send + Sync>;

/// Where a singleton's events go: its listeners, its hooks, the log and the metrics.
#[derive(Clone)]
pub(crate) struct Teller {
    name: Name,
    pub(crate) status: latest::Sender<Status>,
    pub(crate) events: broadcast::Sender<Event>,
    hooks: Vec<Hook>,
}

impl Teller {
    pub(crate) fn new(name: Name, hooks: Vec<Hook>) -> Self {
        let status = Status { name: name.clone(), phase: Phase::Init, term: None, holder: None };
        Self { name, status: latest::Sender::new(status), events: broadcast::Sender::new(EVENTS_MAX), hooks }
    }

    /// From now on, this is where it stands.
    pub(crate) fn phase(&self, phase: Phase, term: Option<u64>) {
        self.status.send_if_modified(|status| {
            let new = (phase, term) != (status.phase, status.term);
            (status.phase, status.term) = (phase, term);
            if phase == Phase::Leading {
                status.holder = None;
            }
            new
        });
        let leads = if phase == Phase::Leading { 1.0 } else { 0.0 };
        metrics::gauge!("tenure_singleton_leading", "singleton" => self.name.to_string()).set(leads);
    }

    /// From now on it follows. Nothing is told if it does already, as after a cooldown.
    pub(crate) fn follow(&self) {
        let new = self.status.borrow().phase != Phase::Following;
        self.phase(Phase::Following, None);
        if new {
            self.tell(Event::Following);
        }
    }

    pub(crate) fn tell(&self, event: Event) {
        let singleton = &self.name;
        match &event {
            Event::ChildOverran => {
                tracing::error!(%singleton, "the child still runs though its time is over: it blocks a thread");
            }
            Event::ChildEnded { kind: ChildKind::Leader, end } => {
                tracing::warn!(%singleton, ?end, "the child ended");
            }
            Event::Lost | Event::GaveUp { .. } | Event::ReleaseUnknown { .. } => {
                tracing::warn!(%singleton, ?event, "leadership is gone");
            }
            Event::Unknown { reason } => tracing::debug!(%singleton, reason, "the oracle could not tell"),
            event => tracing::info!(%singleton, ?event, "singleton"),
        }
        let counted = match &event {
            Event::Elected { .. } => Some("tenure_singleton_elected_total"),
            Event::Lost => Some("tenure_singleton_lost_total"),
            Event::ChildRestarting { .. } => Some("tenure_singleton_restarts_total"),
            Event::ChildOverran => Some("tenure_singleton_overruns_total"),
            _ => None,
        };
        if let Some(metric) = counted {
            metrics::counter!(metric, "singleton" => self.name.to_string()).increment(1);
        }
        for hook in &self.hooks {
            hook(&event);
        }
        // Nobody has to listen.
        let _ = self.events.send(event);
    }
}

impl Told for Teller {
    fn denied(&mut self, holder: Option<String>) {
        let new = self.status.send_if_modified(|status| {
            let new = status.holder != holder;
            status.holder.clone_from(&holder);
            new
        });
        // Once for each leader, not for each question.
        if new || holder.is_none() {
            self.tell(Event::Denied { holder });
        }
    }

    fn unknown(&mut self, reason: String) {
        self.tell(Event::Unknown { reason });
    }

    fn refreshed(&mut self) {
        metrics::counter!("tenure_singleton_refreshes_total", "singleton" => self.name.to_string())
            .increment(1);
    }
}

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Teller").field("name", &self.name).finish_non_exhaustive()
    }
}
