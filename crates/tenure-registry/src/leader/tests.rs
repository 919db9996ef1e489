//! What becomes of a batch from which a session is taken out.

use tenure_cluster::SessionId;
use tenure_store::Env;

use super::*;
use crate::{Metadata, names::Names};

fn order(node: &str, request: u64, name: &str) -> Order {
    let owner = Owner { node: node.parse().unwrap(), session: SessionId::random(&Env::system()) };
    let change = Change::Register { name: name.parse().unwrap(), number: request, metadata: Metadata::new() };
    Order { source: Source::Here, request, floor: 0, owner, change }
}

#[test]
fn nobody_is_refused_for_the_sake_of_a_session_that_is_taken_out() {
    let (names, mut batch) = (Names::default(), Batch::default());
    let mut held = Held::new(&names, crate::flaws::Flaws::default());
    let orders = [order("a", 1, "x"), order("b", 2, "x"), order("b", 3, "y"), order("c", 4, "y")];
    let (gone, other) = (orders[0].owner.clone(), orders[2].owner.clone());
    let mut decided = Vec::new();
    for order in orders {
        let (answer, changes) = held.judge(&order, 1);
        let Order { source, request, floor, owner, change } = order;
        if changes {
            batch.add(&owner, floor, change);
        }
        decided.push(Decided { source, request, session: owner.session, answer });
    }
    assert_eq!(decided[1].answer, Answer::Taken(gone.clone()));
    let mut draft =
        Draft { position: 1, bytes: batch.encode(0), batch, decided, pages: Vec::new(), base: None };
    draft.drop_session(gone.session);
    let answers: Vec<&Answer> = draft.decided.iter().map(|decided| &decided.answer).collect();
    let taken = Answer::Taken(other);
    assert_eq!(answers, [&Answer::Ended, &Answer::NotLeader, &Answer::Done(1), &taken]);
    assert_eq!(draft.batch.changes.len(), 1);
}
