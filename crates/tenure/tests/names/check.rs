//! What must be so, whatever happened.

use std::collections::{BTreeMap, HashMap};

use crate::journal::{Claim, History, Outcome, Sight};

/// A history, by names.
struct Book<'a> {
    history: &'a History,
    /// By name and session.
    claims: HashMap<(&'a str, &'a str), Vec<&'a Claim>>,
    /// By name, in order: from when to when each was somebody's for sure.
    sure: HashMap<&'a str, Vec<(u64, u64, &'a Claim)>>,
}

/// Everything that is wrong with a history.
pub(crate) fn all(history: &History) -> Vec<String> {
    let book = Book::new(history);
    let mut flaws = history.flaws.clone();
    book.owned_once(&mut flaws);
    book.taken_with_reason(&mut flaws);
    book.look_ups_are_true(&mut flaws);
    book.calls_reach_the_owner(&mut flaws);
    flaws
}

/// What is wrong with the names that are there in the end.
pub(crate) fn end(history: &History, found: &BTreeMap<String, (String, u64)>) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut owned = BTreeMap::new();
    for claim in &history.claims {
        if let (Outcome::Own { number, .. }, None, None) = (&claim.outcome, claim.back, claim.lost)
            && !history.killed.contains_key(&claim.session)
        {
            owned.insert(&claim.name, (claim.session.clone(), *number));
        }
    }
    for (name, owner) in &owned {
        if found.get(*name) != Some(owner) {
            flaws.push(format!("{name} is {owner:?}'s, but in the end there is {:?}", found.get(*name)));
        }
    }
    let strange = found.keys().filter(|name| !owned.contains_key(name));
    flaws
        .extend(strange.map(|name| format!("{name} is nobody's, but in the end there is {:?}", found[name])));
    flaws
}

impl<'a> Book<'a> {
    fn new(history: &'a History) -> Self {
        let mut book = Self { history, claims: HashMap::new(), sure: HashMap::new() };
        for claim in &history.claims {
            book.claims.entry((&claim.name, &claim.session)).or_default().push(claim);
            if let Some((from, to)) = book.sure(claim) {
                book.sure.entry(&claim.name).or_default().push((from, to, claim));
            }
        }
        book.sure.values_mut().for_each(|sure| sure.sort_by_key(|(from, to, _)| (*from, *to)));
        book
    }

    /// What a process asked for under a name.
    fn of<'s>(&'s self, name: &'s str, session: &'s str) -> impl Iterator<Item = &'a Claim> + 's {
        self.claims.get(&(name, session)).into_iter().flatten().copied()
    }

    /// From when to when a name was this claim's for sure.
    fn sure(&self, claim: &Claim) -> Option<(u64, u64)> {
        let Outcome::Own { at, .. } = claim.outcome else { return None };
        let killed = self.history.killed.get(&claim.session).map(|(before, _)| *before);
        let ends = [claim.back, claim.lost, killed];
        Some((at, ends.into_iter().flatten().min().unwrap_or(u64::MAX)))
    }

    /// From when to when it may have been. One whose process was killed, or that was not told to be free, may have been there for long; one that was refused, until that was told: a copy of its
    /// request may have been granted, and was taken back before.
    fn maybe(claim: &Claim) -> Option<(u64, u64)> {
        match claim.outcome {
            Outcome::Not(_) => None,
            Outcome::Taken { at, .. } => Some((claim.ask, at)),
            Outcome::Own { .. } | Outcome::Unknown => Some((claim.ask, claim.free.unwrap_or(u64::MAX))),
        }
    }

    fn owned_once(&self, flaws: &mut Vec<String>) {
        for (name, sure) in &self.sure {
            for pair in sure.windows(2) {
                let [(_, end, one), (begin, _, other)] = pair else { continue };
                if begin < end {
                    flaws.push(format!("{name} was owned twice at once: {one:?} and {other:?}"));
                }
            }
        }
    }

    fn taken_with_reason(&self, flaws: &mut Vec<String>) {
        for claim in &self.history.claims {
            let Outcome::Taken { at, by } = &claim.outcome else { continue };
            let reason = self.of(&claim.name, by).any(|other| {
                !std::ptr::eq(other, claim)
                    && Self::maybe(other).is_some_and(|(from, to)| from <= *at && to >= claim.ask)
            });
            if !reason {
                flaws.push(format!("{claim:?} was told that the name is taken, and it was not"));
            }
        }
    }

    fn look_ups_are_true(&self, flaws: &mut Vec<String>) {
        for look in &self.history.looks {
            if let Some((claim, number)) = self.owned_throughout(look) {
                let owner = Some((claim.session.clone(), number));
                if look.owner != owner {
                    flaws.push(format!("{look:?} has missed {claim:?}"));
                }
            }
            let Some((owner, number)) = &look.owner else { continue };
            let there = self.of(&look.name, owner).any(|claim| {
                let held = match claim.outcome {
                    // Until it was acknowledged, it may have been asked for under other numbers: one that a copy was granted is taken back, and asked for anew.
                    Outcome::Own { number: its, at, .. } if its != *number => Some((claim.ask, at)),
                    _ => Self::maybe(claim),
                };
                held.is_some_and(|(from, to)| from <= look.to && to >= look.from)
            });
            if !there {
                flaws.push(format!("{look:?} has found what was not there"));
            }
        }
    }

    /// The claim that had a name for sure all the time that a look-up took, and its number.
    fn owned_throughout(&self, look: &Sight) -> Option<(&'a Claim, u64)> {
        let sure = self.sure.get(look.name.as_str())?;
        // The last one before it: those before that have ended, or it is a flaw of its own.
        let (_, to, claim) = sure[..sure.partition_point(|(from, ..)| *from <= look.from)].last()?;
        match claim.outcome {
            Outcome::Own { number, .. } if look.to <= *to => Some((claim, number)),
            _ => None,
        }
    }

    fn calls_reach_the_owner(&self, flaws: &mut Vec<String>) {
        for call in &self.history.calls {
            let Some((session, number)) = &call.owner else { continue };
            let claim = self.of(&call.name, session).find(|claim| claim.number_there == *number);
            let killed = self.history.killed.get(session).map(|(_, after)| *after);
            let good = claim.is_some_and(|claim| {
                let ends = [claim.back, killed].into_iter().flatten().min().unwrap_or(u64::MAX);
                claim.ask <= call.to && call.from <= ends
            });
            if !good {
                flaws.push(format!("{call:?} was answered by {claim:?}, which did not own the name"));
            }
        }
    }
}
