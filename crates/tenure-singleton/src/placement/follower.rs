//! [`Follower`]: does what the placer wants of this node. One watch and, when it changes, one read, however many
//! singletons there are.

use std::sync::Arc;

use tenure_cluster::{Ground, SessionId};
use tokio::sync::oneshot;

use super::{
    board::{Board, Wish, Yielding},
    book::Book,
    patience,
    record::{Post, prefix},
    store,
};
use crate::runner::Order;

/// Reads the posts of each session of this node.
#[derive(Debug)]
pub(crate) struct Follower {
    ground: Ground,
    board: Arc<Board>,
}

impl Follower {
    pub(crate) fn new(ground: Ground, board: Arc<Board>) -> Self {
        Self { ground, board }
    }

    /// Runs until its task is ended, or the node has left.
    pub(crate) async fn run(self) {
        let mut sessions = self.ground.sessions();
        loop {
            let session = sessions.borrow_and_update().id();
            tokio::select! {
                biased;
                changed = sessions.changed() => {
                    // What was wanted of the session before is over with it.
                    self.board.follow(&Default::default());
                    if changed.is_err() {
                        return;
                    }
                }
                () = self.follow(session) => {}
            }
        }
    }

    async fn follow(&self, session: SessionId) {
        let mut posts = Book::<Post>::new(prefix::<Post>(self.ground.keys(), session));
        let mut watch = self.ground.store().watch(posts.range());
        loop {
            if let Err(error) = store::read(&self.ground, vec![&mut posts]).await {
                tracing::debug!(%error, "what this node is to run can't be read: it is tried again");
                self.ground.env().sleep(self.ground.settings().renewal_interval / 8).await;
                continue;
            }
            for yielding in self.board.follow(&posts.records()) {
                // It ends by itself, when the heir stands or has not stood for long.
                drop(self.ground.env().spawn(hand_over(self.ground.clone(), yielding)));
            }
            watch.changed().await;
        }
    }
}

/// Has a singleton handed over once its heir stands: so nobody waits for more than one child to stop and another to
/// start.
async fn hand_over(ground: Ground, yielding: Yielding) {
    let Yielding { name, heir, mut wish, order } = yielding;
    let wanted = Wish::Yield(heir.clone());
    let election = ground.election(name.clone());
    let stands = ground.env().timeout(patience(&ground), election.awaited_by(heir.session));
    tokio::select! {
        biased;
        _ = wish.wait_for(|wish| *wish != wanted) => {}
        stands = stands => match stands {
            Ok(()) => {
                if let Some(order) = order.upgrade() {
                    // Nobody waits for the end of it; the placer sees who runs it.
                    let _ = order.send(Order::HandOver { to: heir.node, done: oneshot::channel().0 }).await;
                }
            }
            Err(_) => {
                let heir = heir.node;
                tracing::info!(singleton = %name, %heir, "it stays here: its heir does not stand");
            }
        },
    }
}
