//! What is counted. The module `peer` has the table.

use super::{Outcome, wire::Verdict};

/// A message to one peer ended like this.
pub(super) fn sent(outcome: &Outcome) {
    metrics::counter!("tenure_peer_messages_total", "outcome" => outcome.kind()).increment(1);
}

/// A broadcast ended like this for one member.
pub(super) fn broadcast(outcome: &Outcome) {
    metrics::counter!("tenure_peer_broadcasts_total", "outcome" => outcome.kind()).increment(1);
}

/// A message came, and this was the answer.
pub(super) fn received(verdict: Verdict) {
    metrics::counter!("tenure_peer_received_total", "outcome" => verdict.kind()).increment(1);
    if verdict == Verdict::Duplicate {
        metrics::counter!("tenure_peer_duplicates_total").increment(1);
    }
}

/// An inbox had no room for a message.
pub(super) fn dropped(reason: &'static str) {
    metrics::counter!("tenure_peer_dropped_total", "reason" => reason).increment(1);
}

/// A handshake ended like this, on one side.
pub(super) fn handshake(side: &'static str, outcome: &'static str) {
    metrics::counter!("tenure_peer_handshakes_total", "side" => side, "outcome" => outcome).increment(1);
}

/// A link that is open, while this exists.
#[derive(Debug)]
pub(super) struct OpenLink {
    direction: &'static str,
}

impl OpenLink {
    /// One that this node has opened.
    pub(super) fn outgoing() -> Self {
        Self::new("out")
    }

    /// One that a peer has opened.
    pub(super) fn incoming() -> Self {
        Self::new("in")
    }

    fn new(direction: &'static str) -> Self {
        metrics::gauge!("tenure_peer_links", "direction" => direction).increment(1.0);
        Self { direction }
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        metrics::gauge!("tenure_peer_links", "direction" => self.direction).decrement(1.0);
    }
}
