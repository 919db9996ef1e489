//! What must never be seen in a log.

use libtest_mimic::Trial;

use crate::log::{Life, Log};

/// Something that is wrong.
#[derive(Debug)]
pub(crate) struct Flaw {
    pub(crate) words: String,
    /// When it was, in nanoseconds since the machine was started.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whose commands were concerned.
    pub(crate) nodes: Vec<String>,
}

impl Flaw {
    fn of(words: String, (from, to): (u64, u64), lives: &[&Life]) -> Self {
        let mut nodes: Vec<String> = lives.iter().map(|life| life.family.node.clone()).collect();
        nodes.dedup();
        Self { words, from, to, nodes }
    }
}

/// Everything that is wrong; nothing, if all is well.
pub(crate) fn flaws(lives: &[Life]) -> Vec<Flaw> {
    let mut lives: Vec<&Life> = lives.iter().collect();
    lives.sort_by_key(|life| life.first);
    let mut found = Vec::new();
    // The one that lived longest of all before.
    let mut last: Option<&Life> = None;
    for (number, life) in lives.iter().enumerate() {
        if life.terms.len() != 1 {
            let words = format!("{} had several terms: {:?}", life.family, life.terms);
            found.push(Flaw::of(words, (life.first, life.last), &[life]));
        }
        if let Some(last) = last.filter(|last| last.last >= life.first) {
            let until = last.last.min(life.last);
            let (one, other) = (&last.family, &life.family);
            let words = format!("two at a time for {} us: {one} and {other}", (until - life.first) / 1000);
            found.push(Flaw::of(words, (life.first, until), &[last, life]));
        }
        if let Some(before) = number.checked_sub(1).map(|before| lives[before])
            && !follows(before, life)
        {
            let (one, other) = (&before.terms, &life.terms);
            let words =
                format!("after the term {one:?} of {} came {other:?} of {}", before.family, life.family);
            found.push(Flaw::of(words, (before.first, life.first), &[before, life]));
        }
        last = last.filter(|last| last.last > life.last).or(Some(life));
    }
    found
}

/// Whether the terms have grown. A node whose leadership went on may start the command again in it.
fn follows(before: &Life, life: &Life) -> bool {
    let same = before.family.node == life.family.node;
    before.terms.iter().all(|one| life.terms.iter().all(|other| one < other || (same && one == other)))
}

/// The checks themselves, checked.
pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, run: fn()| {
        Trial::test(format!("check::{name}"), move || {
            run();
            Ok(())
        })
    };
    vec![
        trial("a_good_log_has_no_flaws", a_good_log_has_no_flaws),
        trial("an_overlap_is_found", an_overlap_is_found),
        trial("an_overlap_with_a_grandchild_is_found", an_overlap_with_a_grandchild_is_found),
        trial("an_overlap_across_another_life_is_found", an_overlap_across_another_life_is_found),
        trial("terms_that_go_back_are_found", terms_that_go_back_are_found),
        trial("terms_that_two_nodes_share_are_found", terms_that_two_nodes_share_are_found),
    ]
}

fn found(text: &str) -> Vec<String> {
    flaws(&Log::parse(text)).into_iter().map(|flaw| flaw.words).collect()
}

fn a_good_log_has_no_flaws() {
    let text = "start 10 1 7 a/7/10\nbeat 20 1 7 a/7/10\nbeat 25 1 8 a/7/10\nstop 30 1 7 a/7/10\n\
                start 31 2 9 b/9/31\nbeat 40 2 9 b/9/31\nstart 50 2 11 b/11/50\nstart 60 3 7 a/7/60\n";
    assert_eq!(found(text), Vec::<String>::new());
}

fn an_overlap_is_found() {
    let text =
        "start 10000 1 7 a/7/10\nbeat 20000 1 7 a/7/10\nstart 20000 2 9 b/9/20\nstop 40000 2 9 b/9/20\n";
    assert_eq!(found(text), ["two at a time for 0 us: a/7/10 and b/9/20"]);
}

fn an_overlap_with_a_grandchild_is_found() {
    let text = "start 10000 1 7 a/7/10\nstop 20000 1 7 a/7/10\nstart 30000 2 9 b/9/30\n\
                beat 35000 1 8 a/7/10\nstop 40000 2 9 b/9/30\n";
    assert_eq!(found(text), ["two at a time for 5 us: a/7/10 and b/9/30"]);
}

fn an_overlap_across_another_life_is_found() {
    let text = "start 10 1 7 a/7/10\nstart 20 2 9 b/9/20\nstop 30 2 9 b/9/20\n\
                start 40 3 5 c/5/40\nbeat 50 1 7 a/7/10\n";
    let found = found(text);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[1].ends_with("a/7/10 and c/5/40"), "{found:?}");
}

fn terms_that_go_back_are_found() {
    let text = "start 10 2 7 a/7/10\nstart 20 1 9 b/9/20\nstart 30 3 9 b/9/30\n";
    assert_eq!(found(text), ["after the term [2] of a/7/10 came [1] of b/9/20"]);
    let text = "start 10 2 7 a/7/10\nbeat 11 3 7 a/7/10\n";
    assert_eq!(found(text), ["a/7/10 had several terms: [2, 3]"]);
}

fn terms_that_two_nodes_share_are_found() {
    let text = "start 10 2 7 a/7/10\nstart 20 2 9 b/9/20\n";
    assert_eq!(found(text), ["after the term [2] of a/7/10 came [2] of b/9/20"]);
}
