//! [`Records`]: what senders were told, for each invariant; [`Figures`]: what came of a run.

use std::collections::BTreeMap;

use super::clerk::SERVERS;
use crate::invariant::{Journal, SameAnswer, Timely, Together};

/// What came of a run, by name.
#[derive(Clone, Debug, Default)]
pub struct Figures(BTreeMap<&'static str, u64>);

impl Figures {
    /// Adds so much to one of them.
    pub fn add(&mut self, figure: &'static str, count: u64) {
        *self.0.entry(figure).or_default() += count;
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(name, figure)| (*name, *figure))
    }
}

/// What senders were told.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// Of each server.
    pub(super) journals: [Journal; SERVERS.len()],
    pub(super) together: Together,
    pub(super) timely: Timely,
    pub(super) answers: SameAnswer,
    /// Timers that servers may have set.
    pub(super) armed: Vec<(usize, String)>,
    /// Which server was last asked something that is to be answered later, and which was last sent poison.
    pub(super) asked: usize,
    pub(super) poisoned: usize,
    pub(super) figures: Figures,
}
