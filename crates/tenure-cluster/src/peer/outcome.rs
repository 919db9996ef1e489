//! [`Outcome`]: what came of a message to one peer, and [`Outcomes`]: of a broadcast.

use std::fmt;

use tenure_store::Name;

use super::{MessageId, Peer};

/// What came of a message to one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is in the inbox of a subscription there.
    Delivered,
    /// The peer had it already, by an earlier attempt with the same id, and has not delivered it again.
    Duplicate,
    /// Nobody there subscribes to the topic. It was not delivered.
    NoSubscriber,
    /// The peer has no address. It was not sent.
    NoAddress,
    /// The peer, or this node, has joined again since: the message was between sessions of which one has ended. It was not delivered.
    WrongSession,
    /// No answer came by the deadline. **It may have been delivered**, or may be yet.
    TimedOut,
    /// The peer, or this node, would not take it. It was not delivered.
    Refused(String),
    /// The peer can't be reached, or was lost before it confirmed. **It may have been delivered** in the latter case.
    Unreachable(String),
}

impl Outcome {
    /// Whether the peer has it for sure.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered | Self::Duplicate)
    }

    /// The outcome as a label of metrics.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Duplicate => "duplicate",
            Self::NoSubscriber => "no_subscriber",
            Self::NoAddress => "no_address",
            Self::WrongSession => "wrong_session",
            Self::TimedOut => "timed_out",
            Self::Refused(_) => "refused",
            Self::Unreachable(_) => "unreachable",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Delivered => f.write_str("delivered"),
            Self::Duplicate => f.write_str("it was there already"),
            Self::NoSubscriber => f.write_str("nobody there subscribes to the topic: subscribe, or send later"),
            Self::NoAddress => {
                f.write_str("the peer has no address for peers: give it one where it joins, or send to others")
            }
            Self::WrongSession => f.write_str(
                "the peer or this node has joined again since: send again to reach its present session",
            ),
            Self::TimedOut => f.write_str(
                "no answer by the deadline, it may have been delivered: look whether the peer is overloaded or paused, or send again",
            ),
            Self::Refused(reason) => write!(f, "refused: {reason}"),
            Self::Unreachable(reason) => write!(f, "unreachable: {reason}"),
        }
    }
}

/// What came of a broadcast, for each member that was live when it began, but for this node, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcomes {
    id: MessageId,
    outcomes: Vec<(Peer, Outcome)>,
}

impl Outcomes {
    pub(super) fn new(id: MessageId, mut outcomes: Vec<(Peer, Outcome)>) -> Self {
        outcomes.sort_by(|(one, _), (other, _)| one.node.cmp(&other.node));
        Self { id, outcomes }
    }

    /// The id of the message, to be given to [`broadcast_as`](super::Links::broadcast_as) so that those who have it don't get it twice.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// The outcome for a member, if it was live.
    #[must_use]
    pub fn get(&self, node: &Name) -> Option<&Outcome> {
        let found = self.outcomes.binary_search_by(|(peer, _)| peer.node.cmp(node));
        found.ok().map(|index| &self.outcomes[index].1)
    }

    /// All of them.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Peer, &Outcome)> {
        self.outcomes.iter().map(|(peer, outcome)| (peer, outcome))
    }

    /// How many members there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.outcomes.is_empty()
    }

    /// Whether each member has it for sure.
    #[must_use]
    pub fn all_delivered(&self) -> bool {
        self.outcomes.iter().all(|(_, outcome)| outcome.is_delivered())
    }
}
