//! [`Flaws`]: mistakes that a simulation plants, to show that it would find them.

/// Mistakes that a node makes on purpose. All are off, and can be turned on only with the feature `flaws`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "flaws"), allow(unreachable_pub, reason = "public only with the feature"))]
pub struct Flaws {
    /// The deadline of a session counts from the answer to a renewal, not from before it was sent.
    pub deadline_from_answer: bool,
    /// The guard of a leadership does not check that the session exists.
    pub guard_without_session: bool,
    /// A warden that was away counts on as if it had been looking.
    pub warden_counts_on: bool,
}

impl Flaws {
    /// No mistakes.
    pub(crate) const NONE: Flaws =
        Flaws { deadline_from_answer: false, guard_without_session: false, warden_counts_on: false };
}
