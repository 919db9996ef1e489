//! [`View`]: the members as links need them: from memory, at once.

use std::{collections::BTreeMap, sync::Arc};

use tenure_store::{Name, StoreError, latest};

use crate::{
    Member, MemberChanges, MemberState, Members, Session,
    node::Node,
    peer::{Directory, Peer},
};

/// The members of a cluster, kept up to date by [`View::follow`].
#[derive(Debug)]
pub(crate) struct View {
    node: Arc<Node>,
    session: latest::Receiver<Session>,
    members: latest::Sender<BTreeMap<Name, Member>>,
}

impl View {
    /// A view, and the changes that it is to follow.
    pub(crate) async fn new(
        node: Arc<Node>,
        session: latest::Receiver<Session>,
    ) -> Result<(Arc<Self>, MemberChanges), StoreError> {
        let changes = Members::new(Arc::clone(&node)).changes().await?;
        let members = latest::Sender::new(changes.members().clone());
        Ok((Arc::new(Self { node, session, members }), changes))
    }

    /// Takes in all changes, until its task is ended.
    pub(crate) async fn follow(self: Arc<Self>, mut changes: MemberChanges) {
        loop {
            if let Err(error) = changes.next().await {
                // Nothing that passes: what is stored can't be read. Links go on with what is known.
                tracing::error!(%error, "members can't be followed any more");
                return;
            }
            self.members.send_replace(changes.members().clone());
        }
    }
}

fn peer(member: &Member) -> Peer {
    Peer { node: member.node.clone(), session: member.session, address: member.address.clone() }
}

impl Directory for View {
    fn me(&self) -> Peer {
        let settings = &self.node.settings;
        let session = self.session.borrow().id();
        Peer { node: settings.node.clone(), session, address: settings.address.clone() }
    }

    fn find(&self, node: &Name) -> Option<Peer> {
        self.members.borrow().get(node).filter(|member| member.is_here()).map(peer)
    }

    fn live(&self) -> Vec<Peer> {
        let members = self.members.borrow();
        members.values().filter(|member| member.state == MemberState::Live).map(peer).collect()
    }
}
