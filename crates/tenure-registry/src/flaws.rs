//! [`Flaws`]: mistakes that a simulation plants, to show that it would find them.

/// Mistakes that a node makes on purpose. All are off, and can be turned on only with the feature `flaws`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(not(feature = "flaws"), allow(unreachable_pub, reason = "public only with the feature"))]
pub struct Flaws {
    /// The snapshot of a new leader is not in order with its registrations, and followers take it for what they have.
    pub snapshot_out_of_order: bool,
    /// The guard of a leader's commits does not check leader and epoch.
    pub guard_without_epoch: bool,
    /// A departure counts whatever session it names.
    pub down_without_token: bool,
    /// A request that its owner waits for no longer counts all the same.
    pub without_floors: bool,
    /// A name is refused by what the node that asks for it knows itself, which may be outdated.
    pub refuse_by_hearsay: bool,
    /// No mistake: the log is shortened after a few batches, and pages are small, so that a short run has to do with both.
    pub short_log: bool,
}
