//! [`Flaws`]: mistakes that a simulation plants, to show that it would find them.

/// Mistakes that a node makes on purpose. All are off, and can be turned on only with the feature `flaws`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "flaws"), allow(unreachable_pub, reason = "public only with the feature"))]
pub struct Flaws {
    /// Messages are sent without a lane, and again whenever the answer is lost.
    pub send_without_lane: bool,
    /// A message is removed when its locked work begins.
    pub removed_at_lock: bool,
    /// Calls are run inline without a proof that the queue is empty.
    pub inline_without_proof: bool,
    /// Effects are recorded after the commit that stores the state.
    pub effects_apart: bool,
    /// What callbacks send is sent after that commit.
    pub sent_apart: bool,
    /// The timer of a message that is due is removed after it was put into the queue.
    pub timer_removed_after: bool,
    /// Answers under idempotency keys outlive their server.
    pub answers_outlive_server: bool,
}

impl Flaws {
    /// No mistakes.
    pub(crate) const NONE: Flaws = Flaws {
        send_without_lane: false,
        removed_at_lock: false,
        inline_without_proof: false,
        effects_apart: false,
        sent_apart: false,
        timer_removed_after: false,
        answers_outlive_server: false,
    };
}
