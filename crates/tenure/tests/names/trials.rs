//! That the checks find what they are for: each is fed histories that are wrong in one way.

use std::collections::BTreeMap;

use libtest_mimic::Trial;

use crate::{check, journal::History};

pub(crate) fn all() -> Vec<Trial> {
    let trial = |name: &str, body: fn()| {
        Trial::test(format!("check::{name}"), move || {
            body();
            Ok(())
        })
    };
    vec![
        trial("what_is_right_passes", what_is_right_passes),
        trial("a_name_that_is_owned_twice_is_found", a_name_that_is_owned_twice_is_found),
        trial("taken_without_reason_is_found", taken_without_reason_is_found),
        trial("a_look_up_that_misses_is_found", a_look_up_that_misses_is_found),
        trial("a_look_up_that_invents_is_found", a_look_up_that_invents_is_found),
        trial("an_answer_of_another_is_found", an_answer_of_another_is_found),
        trial("what_is_lost_or_left_over_is_found", what_is_lost_or_left_over_is_found),
    ]
}

/// The first of two processes owns `n` from 20 to 50.
const ONE: &str = "node a s1\nask 10 0 n\nown 20 0 7 1\nback 50 0\nfree 60 0\n";

/// What these two processes wrote, of which the first was killed, or not.
fn history(one: &str, other: &str, killed: Option<(u64, u64)>) -> History {
    let mut history = History::default();
    history.add(one, killed);
    history.add(&format!("node b s2\n{other}"), None);
    history
}

fn flaws(one: &str, other: &str, killed: Option<(u64, u64)>) -> Vec<String> {
    check::all(&history(one, other, killed))
}

fn assert_found(found: &[String], words: &str) {
    assert!(found.len() == 1 && found[0].contains(words), "{words:?} in {found:?}");
}

fn what_is_right_passes() {
    let other = "ask 15 0 n\ntaken 25 0 s1\nask 55 1 n\nown 58 1 3 2\nsee 21 49 n s1 7\nsee 49 57 n - 0\nsee 59 70 n s2 3\ncall 45 52 n s1 0\ncall 59 61 n s2 1\n";
    assert_eq!(flaws(ONE, other, None), [""; 0]);
    // Killed at 30: then it is nobody's, or for a while still that one's.
    let one = "node a s1\nask 10 0 n\nown 20 0 7 1\nask 25 1 m\n";
    let other = "ask 29 0 n\ntaken 40 0 s1\nask 29 1 m\ntaken 41 1 s1\nsee 35 40 n s1 7\nask 42 2 n\nown 50 2 1 2\ncall 29 34 n s1 0\n";
    assert_eq!(flaws(one, other, Some((30, 31))), [""; 0]);
}

fn a_name_that_is_owned_twice_is_found() {
    assert_found(&flaws(ONE, "ask 30 0 n\nown 49 0 1 1\n", None), "owned twice");
    assert_eq!(flaws(ONE, "ask 30 0 n\nown 51 0 1 1\n", None), [""; 0], "it was being taken back");
    let one = "node a s1\nask 10 0 n\nown 20 0 7 1\n";
    assert_found(&flaws(one, "ask 30 0 n\nown 49 0 1 1\n", Some((50, 51))), "owned twice");
}

fn taken_without_reason_is_found() {
    for other in ["ask 1 0 n\ntaken 9 0 s1\n", "ask 61 0 n\ntaken 70 0 s1\n", "ask 30 0 n\ntaken 40 0 s3\n"] {
        assert_found(&flaws(ONE, other, None), "was told that the name is taken");
    }
    let refused = "node a s1\nask 10 0 n\nnot 20 0 nobody leads\n";
    assert_found(&flaws(refused, "ask 15 0 n\ntaken 30 0 s1\n", None), "was told that the name is taken");
    let unknown = "node a s1\nask 10 0 n\nmaybe 20 0 no answer\n";
    assert_eq!(flaws(unknown, "ask 15 0 n\ntaken 30 0 s1\n", None), [""; 0]);
}

fn a_look_up_that_misses_is_found() {
    assert_found(&flaws(ONE, "see 21 49 n - 0\n", None), "has missed");
    assert_eq!(flaws(ONE, "see 19 49 n - 0\nsee 21 51 n - 0\n", None), [""; 0]);
}

fn a_look_up_that_invents_is_found() {
    for look in ["see 1 9 n s1 7\n", "see 61 70 n s1 7\n", "see 1 70 n s3 7\n", "see 21 70 n s1 8\n"] {
        assert_found(&flaws(ONE, look, None), "has found what was not there");
    }
    assert_eq!(flaws(ONE, "see 15 19 n s1 8\n", None), [""; 0], "it may have been asked for twice");
}

fn an_answer_of_another_is_found() {
    for call in ["call 51 70 n s1 0\n", "call 1 9 n s1 0\n", "call 25 30 n s1 1\n", "call 25 30 m s1 0\n"] {
        assert_found(&flaws(ONE, call, None), "did not own the name");
    }
    let one = "node a s1\nask 10 0 n\nown 20 0 7 1\n";
    assert_found(&flaws(one, "call 32 40 n s1 0\n", Some((30, 31))), "did not own the name");
}

fn what_is_lost_or_left_over_is_found() {
    let history =
        history("node a s1\nask 10 0 n\nown 20 0 7 1\n", "ask 10 0 m\nown 20 0 2 1\nback 30 0\n", None);
    let owner = |session: &str, number| (session.to_owned(), number);
    let right = BTreeMap::from([("n".to_owned(), owner("s1", 7))]);
    assert_eq!(check::end(&history, &right), [""; 0]);
    assert_found(&check::end(&history, &BTreeMap::new()), "n is");
    let other = BTreeMap::from([("n".to_owned(), owner("s2", 7))]);
    assert_found(&check::end(&history, &other), "n is");
    let more = BTreeMap::from([("n".to_owned(), owner("s1", 7)), ("m".to_owned(), owner("s2", 2))]);
    assert_found(&check::end(&history, &more), "m is nobody's");
}
