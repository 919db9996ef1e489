//! [`Converged`]: a follower never goes back, and in the end has seen the end.

/// What one follower saw of a value that only grows.
#[derive(Debug, Default)]
pub struct Converged {
    seen: u64,
}

impl Converged {
    /// The follower sees this.
    ///
    /// # Errors
    /// When it is less than what it saw before.
    pub fn sees(&mut self, value: u64) -> Result<(), String> {
        if value < self.seen {
            return Err(format!("a follower saw {value} after {}", self.seen));
        }
        self.seen = value;
        Ok(())
    }

    /// Whether the follower has seen this much.
    #[must_use]
    pub fn has_seen(&self, value: u64) -> bool {
        self.seen >= value
    }
}
