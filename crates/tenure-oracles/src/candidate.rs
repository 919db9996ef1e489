//! What candidates are called, and what all oracles demand of their settings.

use std::time::Duration;

use tenure_store::{Env, Name, StoreError};

/// What one candidate is called in a table: by no other of this node, by none before a restart, and by no Erlang node
/// or IP address.
pub(crate) fn incarnation(node: &Name, env: &Env) -> String {
    format!("tenure:{node}:{:016x}", env.random_u64())
}

/// A name from the settings, which is called so there.
pub(crate) fn name(called: &str, text: &str) -> Result<Name, StoreError> {
    text.parse().map_err(|error| StoreError::invalid(format!("{called}: {error}")))
}

/// Refuses a time that is too short or too long.
pub(crate) fn admit_time(called: &str, time: Duration, least: Duration) -> Result<(), StoreError> {
    /// Nobody waits longer for a leader that is gone.
    const MOST: Duration = Duration::from_secs(24 * 3600);
    if (least..=MOST).contains(&time) {
        return Ok(());
    }
    Err(StoreError::invalid(format!("{called} is {time:?}: choose from {least:?} to {MOST:?}")))
}
