//! Who is elected, by every change of members.

use proptest::prelude::*;
use tenure_store::Env;

use super::*;

fn token(number: u8) -> Token {
    Token([number; SessionId::BYTES])
}

fn id(node: &str, number: u8) -> MemberId {
    MemberId { node: node.into(), token: token(number) }
}

/// Applies changes, each handled by a node, and returns what is known afterwards.
fn council(changes: &[(Membership, MemberId)]) -> Council {
    let mut council = Council::default();
    for (membership, runner) in changes {
        council.change(membership, runner, Duration::from_secs(1));
    }
    council
}

fn join(node: &str, number: u8) -> Membership {
    Membership::Join(id(node, number))
}

fn down(node: &str, number: u8) -> Membership {
    Membership::MemberDown(id(node, number))
}

#[test]
fn a_token_is_a_session() {
    let session = SessionId::random(&Env::system());
    assert_eq!(SessionId::from(Token::from(session)), session);
    assert!(format!("{:?}", Token::from(session)).contains(&session.to_string()));
}

#[test]
fn the_first_leads_and_goes_on_whoever_joins() {
    let council =
        council(&[(join("m", 1), id("m", 1)), (join("a", 2), id("a", 2)), (join("m", 1), id("a", 2))]);
    assert_eq!(council.leader, Led { epoch: 1, leader: Some(id("m", 1)) });
    assert_eq!(council.members.len(), 2);
    assert_eq!(council.handover, Some(Handover { from: None }), "there was nobody to hand over");
}

#[test]
fn the_runner_leads_if_it_is_a_member_and_else_the_smallest() {
    let three = |last: (Membership, MemberId)| {
        council(&[(join("b", 1), id("b", 1)), (join("c", 2), id("c", 2)), (join("a", 3), id("a", 3)), last])
    };
    let runner = three((down("b", 1), id("c", 2)));
    assert_eq!((runner.leader.epoch, runner.leader.leader.clone()), (2, Some(id("c", 2))));
    assert_eq!(runner.handover, Some(Handover { from: None }), "it has followed: it starts from its own");
    assert_eq!(runner.last, Some(id("b", 1)));
    let smallest = three((down("b", 1), id("b", 1)));
    assert_eq!(smallest.leader.leader, Some(id("a", 3)));
    let stranger = three((down("b", 1), id("c", 9)));
    assert_eq!(stranger.leader.leader, Some(id("a", 3)), "a runner of another session is no member");
}

#[test]
fn only_a_brand_new_leader_gets_the_names_of_the_old_one() {
    let council =
        council(&[(join("a", 1), id("a", 1)), (down("a", 1), id("a", 1)), (join("b", 2), id("b", 2))]);
    assert_eq!(council.leader, Led { epoch: 2, leader: Some(id("b", 2)) });
    assert_eq!(council.handover, Some(Handover { from: Some(id("a", 1)) }));
}

#[test]
fn a_departure_of_another_incarnation_is_discarded() {
    let council =
        council(&[(join("a", 1), id("x", 0)), (join("a", 2), id("x", 0)), (down("a", 1), id("x", 0))]);
    assert_eq!(council.leader, Led { epoch: 2, leader: Some(id("a", 2)) });
    assert!(council.is_member(&id("a", 2)) && !council.is_member(&id("a", 1)));
}

#[test]
fn nobody_is_elected_where_nobody_is() {
    let mut council = council(&[(join("a", 1), id("a", 1))]);
    assert!(council.change(&down("a", 1), &id("a", 1), Duration::ZERO));
    assert_eq!(council.leader, Led { epoch: 1, leader: None });
    assert!(!council.change(&down("a", 1), &id("a", 1), Duration::ZERO), "nothing changes any more");
}

fn any_change() -> impl Strategy<Value = (Membership, MemberId)> {
    let node = || prop::sample::select(vec!["a", "b", "c", "d"]);
    (any::<bool>(), node(), 0..3_u8, node(), 0..3_u8).prop_map(|(joins, one, token, other, runs)| {
        let member = id(one, token);
        let membership = if joins { Membership::Join(member) } else { Membership::MemberDown(member) };
        (membership, id(other, runs))
    })
}

proptest! {
    #[test]
    fn whatever_happens_the_leader_is_a_member_and_sticky_and_its_epoch_is_its_own(
        changes in prop::collection::vec(any_change(), 1..60)
    ) {
        let mut council = Council::default();
        for (membership, runner) in changes {
            let (before, members) = (council.leader.clone(), council.members.len());
            let changed = council.change(&membership, &runner, Duration::ZERO);
            let led = council.leader.clone();
            prop_assert_eq!(changed, before != led);
            prop_assert_eq!(led.leader.is_some(), !council.members.is_empty());
            if let Some(leader) = &led.leader {
                prop_assert!(council.is_member(leader));
                prop_assert_eq!(led.epoch, before.epoch + u64::from(changed));
                let chosen = council.is_member(&runner).then_some(runner);
                let smallest = council.members.iter().next().map(|(node, _)| node.clone());
                if changed {
                    prop_assert_eq!(Some(leader.node.clone()), chosen.map(|one| one.node).or(smallest));
                }
            }
            if let Some(leader) = before.leader.filter(|leader| council.is_member(leader)) {
                prop_assert_eq!(led.leader, Some(leader), "the incumbent stays");
            }
            match membership {
                Membership::Join(id) => prop_assert!(council.is_member(&id)),
                Membership::MemberDown(id) => {
                    prop_assert!(!council.is_member(&id));
                    prop_assert!(members - council.members.len() <= 1);
                }
            }
        }
    }
}
