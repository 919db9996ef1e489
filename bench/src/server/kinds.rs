//! The servers that are called: a small one, and one with a large state.

use serde::{Deserialize, Serialize};
use tenure_server::{Context, Failure, Map, Never, Server, State};

/// Adds up.
#[derive(Debug, Default)]
pub(crate) struct Counter;

impl Server for Counter {
    const KIND: &'static str = "counter";
    type State = u64;
    type Call = u64;
    type Reply = u64;
    type Cast = u64;
    type Effect = Never;

    fn handle_call(
        &self,
        total: &mut u64,
        add: &u64,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        *total += add;
        Ok(Some(*total))
    }

    fn handle_cast(&self, total: &mut u64, add: &u64, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        *total += add;
        Ok(())
    }
}

/// Keeps many numbers.
#[derive(Debug, Default)]
pub(crate) struct Ledger;

/// What a ledger keeps.
#[derive(Default, State)]
pub(crate) struct Pages {
    #[state(parts)]
    entries: Map<u64, u64>,
}

/// What a ledger is asked for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// Have entries from here up to there. The answer is how many there are.
    Fill(u64, u64),
    /// Add one to an entry. The answer is the entry.
    Add(u64),
    /// The sum of all entries.
    Sum,
}

impl Server for Ledger {
    const KIND: &'static str = "ledger";
    type State = Pages;
    type Call = Entry;
    type Reply = u64;
    type Cast = Never;
    type Effect = Never;

    fn handle_call(
        &self,
        pages: &mut Pages,
        call: &Entry,
        _: &mut Context<'_, Self>,
    ) -> Result<Option<u64>, Failure> {
        Ok(Some(match *call {
            Entry::Fill(from, to) => {
                for entry in from..to {
                    pages.entries.insert(entry, 0);
                }
                pages.entries.len() as u64
            }
            Entry::Add(entry) => {
                let value = pages.entries.get_or_insert_with(entry, || 0);
                *value += 1;
                *value
            }
            Entry::Sum => pages.entries.values().sum(),
        }))
    }

    fn handle_cast(&self, _: &mut Pages, cast: &Never, _: &mut Context<'_, Self>) -> Result<(), Failure> {
        match *cast {}
    }
}
