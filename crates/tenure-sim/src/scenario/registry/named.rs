//! [`Named`]: what came of a run, in figures.

/// What came of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named {
    /// Registrations that were acknowledged.
    pub registered: u64,
    /// Registrations that were refused, since the name is another's.
    pub taken: u64,
    /// Requests of which nobody knows what came of them.
    pub unknown: u64,
    /// Registrations that were lost with their session.
    pub lost: u64,
    /// Consistent look-ups that were answered.
    pub looked_up: u64,
    /// Processes that were killed.
    pub killed: u64,
    /// Of those, the ones that led.
    pub leaders_killed: u64,
    /// Pauses for longer than the ttl.
    pub paused: u64,
    /// Ways between processes that were interrupted.
    pub parted: u64,
    /// How often somebody left of its own will.
    pub left: u64,
    /// Leaders that were named.
    pub leaders: u64,
    /// Messages between processes that got lost.
    pub messages_lost: u64,
    /// How often the log was shortened.
    pub shortened: u64,
    /// Requests that came through the store.
    pub posted: u64,
    /// Copies of them that came later.
    pub copies: u64,
}

impl Named {
    /// How many figures there are.
    pub const FIGURES: usize = 15;

    /// All figures, by name.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, u64); Self::FIGURES] {
        [
            ("registered", self.registered),
            ("taken", self.taken),
            ("unknown", self.unknown),
            ("lost", self.lost),
            ("looked up", self.looked_up),
            ("killed", self.killed),
            ("leaders killed", self.leaders_killed),
            ("paused", self.paused),
            ("parted", self.parted),
            ("left", self.left),
            ("leaders", self.leaders),
            ("messages lost", self.messages_lost),
            ("shortened", self.shortened),
            ("posted", self.posted),
            ("copies", self.copies),
        ]
    }
}
