//! Copies of requests that come late.

use super::*;
use crate::{Metadata, batch::Batch, names::Step};

fn owner(number: u8) -> Owner {
    Owner {
        node: format!("n{number}").parse().unwrap(),
        session: SessionId::from_bytes([number; SessionId::BYTES]),
    }
}

fn name() -> Name {
    "x".parse().unwrap()
}

fn order(request: u64, floor: u64, change: Change) -> Order {
    Order { source: Source::Here, request, floor, owner: owner(1), change }
}

fn register(number: u64, floor: u64) -> Order {
    order(number, floor, Change::Register { name: name(), number, metadata: Metadata::new() })
}

fn unregister(request: u64, floor: u64, number: u64) -> Order {
    order(request, floor, Change::Unregister { name: name(), number })
}

fn describe(request: u64, floor: u64, number: u64) -> Order {
    let metadata = Metadata::new().label("by", request.to_string());
    order(request, floor, Change::Describe { name: name(), number, request, metadata })
}

/// Decides requests as a leader does, all in one batch or each in its own, and returns the answers.
fn decide(names: &Names, orders: &[Order], together: bool) -> Vec<Answer> {
    let mut answers = Vec::new();
    for orders in orders.chunks(if together { orders.len() } else { 1 }) {
        let (mut held, mut batch) = (Held::new(names, Flaws::default()), Batch::default());
        let position = names.position() + 1;
        for order in orders {
            let (answer, changes) = held.judge(order, position);
            if changes {
                batch.add(&order.owner, order.settles(), order.change.clone());
            }
            answers.push(answer);
        }
        drop(held);
        assert!(matches!(names.apply(position, batch), Step::Applied(_)));
    }
    answers
}

fn is_done(answer: &Answer) -> bool {
    matches!(answer, Answer::Done(_))
}

#[test]
fn what_was_taken_back_never_comes_back() {
    for together in [false, true] {
        let names = Names::default();
        let orders = [register(5, 5), unregister(6, 6, 5), register(5, 5), register(7, 7)];
        let answers = decide(&names, &orders, together);
        assert!(is_done(&answers[0]) && is_done(&answers[1]) && is_done(&answers[3]), "{answers:?}");
        assert_eq!(answers[2], Answer::Gone, "a copy");
        // While it stands, a copy changes nothing; of others of its session, nothing is known.
        let answers = decide(&names, &[register(7, 7), register(5, 5)], together);
        assert!(is_done(&answers[0]));
        assert_eq!(answers[1], Answer::Taken(owner(1)));
        assert_eq!(names.get("x").map(|entry| entry.number()), Some(7));
    }
}

#[test]
fn what_was_not_there_to_be_taken_back_never_comes_either() {
    for together in [false, true] {
        let names = Names::default();
        // The request was given up, and is overtaken by what takes it back.
        let answers = decide(&names, &[unregister(6, 6, 5), register(5, 5)], together);
        assert_eq!(answers, [Answer::Gone, Answer::Gone]);
        // Once that is known, taking back again is nothing to be committed.
        let (_, changes) = Held::new(&names, Flaws::default()).judge(&unregister(7, 7, 5), 9);
        assert!(!changes && names.get("x").is_none());
    }
}

#[test]
fn whoever_takes_part_no_longer_is_given_nothing_by_late_copies() {
    let names = Names::default();
    // It may still wait for something when it leaves.
    let left = order(9, 4, Change::Left { through: 9 });
    let answers = decide(&names, &[register(5, 4), left, register(5, 4), register(10, 10)], false);
    assert!(is_done(&answers[0]) && is_done(&answers[1]) && is_done(&answers[3]), "{answers:?}");
    assert_eq!(answers[2], Answer::Gone, "a copy");
}

#[test]
fn what_was_said_before_never_counts_again() {
    for together in [false, true] {
        let names = Names::default();
        let orders =
            [register(5, 5), describe(6, 5, 5), describe(8, 5, 5), describe(6, 5, 5), describe(7, 5, 4)];
        let answers = decide(&names, &orders, together);
        assert!(answers[..4].iter().all(is_done), "{answers:?}");
        assert_eq!(answers[4], Answer::Gone, "of another registration");
        let entry = names.get("x").unwrap();
        assert_eq!((entry.metadata().labels["by"].as_str(), entry.number()), ("8", 5));
    }
}

#[test]
fn a_planted_mistake_takes_copies_for_new() {
    let (names, flaws) = (Names::default(), Flaws { without_floors: true, ..Flaws::default() });
    decide(&names, &[register(5, 5), unregister(6, 6, 5)], false);
    assert!(is_done(&Held::new(&names, flaws).judge(&register(5, 5), 3).0));
}
