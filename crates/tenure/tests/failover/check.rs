//! What must never be seen, whatever happened to whom.
//!
//! Each check returns what it found, in words; nothing, if all is well. Below them stand trials that feed them what they must find.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use libtest_mimic::Trial;

use crate::ledger::{Belief, End};

/// All checks. `voided`: whether those who were killed are known to be dead, so that nobody waits for their deadlines.
pub(crate) fn all(beliefs: &[Belief], landed: &[u64], voided: bool) -> Vec<String> {
    let mut beliefs = beliefs.to_vec();
    beliefs.sort_by_key(|belief| belief.first);
    let mut found = Vec::new();
    found.extend(no_two_believe_at_once(&beliefs));
    found.extend(nobody_leads_before_a_deadline(&beliefs, voided));
    found.extend(terms_grow(&beliefs));
    found.extend(no_late_commit_lands(landed));
    found.extend(what_was_acknowledged_is_there(&beliefs, landed));
    found
}

/// At no instant do two believe to lead. Each is certain to have believed from its first to its last, so whatever this finds is true.
fn no_two_believe_at_once(beliefs: &[Belief]) -> Vec<String> {
    let mut found = Vec::new();
    let mut longest: Option<&Belief> = None;
    for belief in beliefs {
        if let Some(earlier) = longest.filter(|earlier| earlier.last >= belief.first) {
            let both = earlier.last.min(belief.last.max(belief.first)) - belief.first;
            found.push(format!("two believed to lead at once, for {both:?}: {earlier:?} and {belief:?}"));
        }
        if longest.is_none_or(|longest| longest.last < belief.last) {
            longest = Some(belief);
        }
    }
    found
}

/// Nobody leads before the deadline of the one before, unless that one gave up, or is known to be dead. This does not depend on
/// how often anybody looked.
fn nobody_leads_before_a_deadline(beliefs: &[Belief], voided: bool) -> Vec<String> {
    let stands = |earlier: &Belief| match earlier.end {
        End::GivenUp => false,
        End::Lost => true,
        End::None => !voided,
    };
    let pairs = beliefs.iter().zip(beliefs.iter().skip(1));
    pairs
        .filter(|(earlier, later)| stands(earlier) && later.first < earlier.deadline)
        .map(|(earlier, later)| {
            let early = earlier.deadline - later.first;
            format!(
                "somebody led {early:?} before the deadline of the leader before: {later:?} after {earlier:?}"
            )
        })
        .collect()
}

/// Each leader's term is greater than that of the one before, and no two processes have one term.
fn terms_grow(beliefs: &[Belief]) -> Vec<String> {
    let pairs = beliefs.iter().zip(beliefs.iter().skip(1));
    // A session that lapsed and goes on has its term again.
    pairs
        .filter(|(earlier, later)| {
            earlier.term > later.term || earlier.term == later.term && earlier.worker != later.worker
        })
        .map(|(earlier, later)| format!("terms do not grow: {later:?} after {earlier:?}"))
        .collect()
}

/// No commit of an older term lands after one of a newer term.
fn no_late_commit_lands(landed: &[u64]) -> Vec<String> {
    let pairs = landed.iter().zip(landed.iter().skip(1)).enumerate();
    pairs
        .filter(|(_, (earlier, later))| later < earlier)
        .map(|(at, (earlier, later))| {
            format!("commit {} of term {later} landed after one of term {earlier}", at + 1)
        })
        .collect()
}

/// Every commit that was acknowledged has landed, and none in a term that nobody had.
fn what_was_acknowledged_is_there(beliefs: &[Belief], landed: &[u64]) -> Vec<String> {
    let mut counts: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for belief in beliefs {
        counts.entry(belief.term).or_default().0 += belief.commits;
    }
    let led: BTreeSet<u64> = counts.keys().copied().collect();
    for term in landed {
        counts.entry(*term).or_default().1 += 1;
    }
    let strange = |term: &u64| !led.contains(term);
    counts
        .into_iter()
        .filter(|(term, (acknowledged, there))| acknowledged > there || strange(term))
        .map(|(term, (acknowledged, there))| {
            format!("of term {term}, {acknowledged} commits were acknowledged, and {there} are there")
        })
        .collect()
}

/// That the checks find what they are for.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, body: fn()| {
        Trial::test(format!("check::{name}"), move || {
            body();
            Ok(())
        })
    };
    vec![
        trial("what_is_right_passes", what_is_right_passes),
        trial("belief_at_once_is_found", belief_at_once_is_found),
        trial("a_broken_promise_is_found", a_broken_promise_is_found),
        trial("terms_that_do_not_grow_are_found", terms_that_do_not_grow_are_found),
        trial("late_and_lost_commits_are_found", late_and_lost_commits_are_found),
    ]
}

/// A belief in milliseconds, with one commit.
fn belief(worker: &str, term: u64, first: u64, last: u64, deadline: u64) -> Belief {
    let ms = Duration::from_millis;
    Belief {
        worker: worker.to_owned(),
        term,
        first: ms(first),
        last: ms(last),
        deadline: ms(deadline),
        end: End::Lost,
        commits: 1,
        refused: false,
    }
}

fn what_is_right_passes() {
    let mut beliefs = [
        belief("a", 1, 0, 99, 100),
        belief("a", 1, 101, 150, 160),
        belief("b", 2, 161, 200, 300),
        belief("c", 3, 201, 250, 350),
    ];
    // Stopped in its first sample: nothing is certain of it.
    let short = belief("b", 4, 900, 400, 450);
    beliefs[2].end = End::GivenUp;
    let beliefs = [&beliefs[..], &[short]].concat();
    assert_eq!(all(&beliefs, &[1, 1, 1, 2, 3, 3, 4], false), [""; 0]);
    let mut killed = [belief("a", 1, 0, 50, 100), belief("b", 2, 60, 70, 90)];
    killed[0].end = End::None;
    assert_eq!(all(&killed, &[1, 2], true), [""; 0]);
}

fn belief_at_once_is_found() {
    let long = belief("a", 1, 0, 300, 300);
    for others in [
        vec![belief("b", 2, 300, 400, 400)],
        vec![belief("b", 2, 100, 200, 200)],
        vec![belief("b", 2, 250, 240, 250)],
    ] {
        let beliefs = [&others[..], std::slice::from_ref(&long)].concat();
        let found = all(&beliefs, &[1, 2], true);
        assert!(found.iter().any(|words| words.contains("at once")), "{found:?}");
    }
    // Not only neighbours in time.
    let beliefs = [long, belief("b", 2, 10, 20, 20), belief("c", 3, 100, 110, 110)];
    assert_eq!(no_two_believe_at_once(&beliefs).len(), 2);
}

fn a_broken_promise_is_found() {
    let mut beliefs = [belief("a", 1, 0, 50, 100), belief("b", 2, 99, 200, 200)];
    for (end, voided, count) in [
        (End::Lost, false, 1),
        (End::Lost, true, 1),
        (End::None, false, 1),
        (End::None, true, 0),
        (End::GivenUp, false, 0),
    ] {
        beliefs[0].end = end;
        assert_eq!(nobody_leads_before_a_deadline(&beliefs, voided).len(), count, "{end:?} {voided}");
    }
}

fn terms_that_do_not_grow_are_found() {
    for (worker, term) in [("b", 4), ("a", 4), ("b", 5)] {
        let beliefs = [belief("a", 5, 0, 10, 10), belief(worker, term, 20, 30, 30)];
        assert_eq!(terms_grow(&beliefs).len(), 1, "{worker} {term}");
    }
}

fn late_and_lost_commits_are_found() {
    assert_eq!(no_late_commit_lands(&[1, 2, 1, 2, 2, 3]).len(), 1);
    let beliefs = [belief("a", 1, 0, 10, 10), belief("a", 1, 20, 30, 30)];
    assert_eq!(what_was_acknowledged_is_there(&beliefs, &[1]).len(), 1, "one of two is lost");
    assert_eq!(what_was_acknowledged_is_there(&beliefs, &[1, 1, 2]).len(), 1, "nobody had term 2");
}
