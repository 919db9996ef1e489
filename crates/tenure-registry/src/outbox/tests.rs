//! When something can be taken back.

use tenure_cluster::SessionId;

use super::*;

fn pending(change: Change) -> Pending {
    let session = SessionId::from_bytes([1; SessionId::BYTES]);
    let owner = Owner { node: "n".parse().unwrap(), session };
    Pending { owner, change, waiter: None, sent: None, tried: false, copied: false }
}

fn unregister(number: u64) -> Pending {
    pending(Change::Unregister { name: "x".parse().unwrap(), number })
}

fn register(number: u64) -> Pending {
    let (name, metadata) = ("x".parse().unwrap(), crate::Metadata::new());
    pending(Change::Register { name, number, metadata })
}

#[test]
fn a_registration_is_taken_back_when_no_request_up_to_its_own_is_waited_for() {
    let mut state = State::default();
    for (request, pending) in [(3, register(3)), (6, unregister(4)), (7, unregister(2)), (8, register(8))] {
        let floor = state.floor().min(request);
        if pending.may_go(floor) {
            state.unsent.push_back(request);
        } else {
            state.kept.insert(request);
        }
        state.pending.insert(request, pending);
    }
    assert_eq!((&state.unsent, state.kept.len()), (&VecDeque::from([3, 7, 8]), 1), "4 is above 3");
    assert!(!state.let_go());
    // It is answered, or given up.
    state.pending.remove(&3);
    state.unsent.pop_front();
    assert!(state.let_go());
    assert_eq!((&state.unsent, state.floor()), (&VecDeque::from([6, 7, 8]), 6), "in order");
    let env = tenure_store::Env::system();
    let (floor, taken) = state.take(usize::MAX, usize::MAX, env.now());
    assert_eq!((floor, taken.len()), (6, 3));
    assert_eq!(State::default().floor(), u64::MAX, "nothing is waited for");
}

#[test]
fn what_is_sent_again_has_copies() {
    let (mut state, env) = (State::default(), tenure_store::Env::system());
    state.pending.insert(3, register(3));
    state.unsent.push_back(3);
    state.take(usize::MAX, usize::MAX, env.now());
    assert!(!state.pending[&3].copied, "it was sent once");
    state.line_up(3);
    state.take(usize::MAX, usize::MAX, env.now());
    assert!(state.pending[&3].copied);
}
