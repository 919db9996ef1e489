//! How a session begins.

use tenure_store::{Check, Commit, CommitError, Moment, StoreExt as _, Versioned};

use super::{Beat, Evidence, Identity, Session, SessionId, end};
use crate::{Cause, ClusterError, Member, node::Node};

/// Begins a new session of this node: its record replaces that of the session before, which must have ended, or be proven dead, or may be taken over.
///
/// # Errors
/// [`ClusterError::Occupied`] if another live process has the node's name. Errors of the store that pass are tried again for a while.
pub(crate) async fn join(node: &Node, take_over: bool) -> Result<Session, ClusterError> {
    let mut pauses = node.retry().start(&node.env);
    // One id for all tries: whichever of them lands is this session. The deadline counts from the first.
    let joining = Joining { id: SessionId::random(&node.env), sent: node.env.now() };
    loop {
        let failure = match attempt(node, &joining, take_over).await {
            Ok(true) => {
                let Joining { id, sent } = joining;
                let session = Session::new(id, node.env.clone(), node.settings.ttl, sent);
                tracing::info!(node = %node.settings.node, session = %id, "session begun");
                return Ok(session);
            }
            Ok(false) => None,
            Err(error @ ClusterError::OutcomeUnknown(_)) => Some(error),
            Err(ClusterError::Store(error)) if error.is_transient() => Some(error.into()),
            Err(error) => return Err(error),
        };
        if !pauses.pause().await {
            let words = "joining the cluster met others at every try: try again";
            let conflict = || ClusterError::Store(tenure_store::StoreError::unavailable(words));
            return Err(failure.unwrap_or_else(conflict));
        }
    }
}

struct Joining {
    id: SessionId,
    sent: Moment,
}

/// Whether the session has begun, after one try.
async fn attempt(node: &Node, joining: &Joining, take_over: bool) -> Result<bool, ClusterError> {
    let keys = &node.keys;
    let key = keys.member(&node.settings.node);
    let found = node.store.get(&key).await?;
    let before = match &found {
        Some(Versioned { value, .. }) => Some(Member::decode(&key, value)?),
        None => None,
    };
    if let Some(before) = &before {
        if before.session == joining.id {
            return Ok(before.is_here());
        }
        if before.is_here() && !make_way(node, before, take_over).await? {
            return Ok(false);
        }
    }
    let check = match found {
        Some(Versioned { version, .. }) => Check::Version(key.clone(), version),
        None => Check::Absent(key.clone()),
    };
    let now = node.env.unix_time();
    let member =
        Member::joining(&node.settings, joining.id, node.owner.clone(), now, before.as_ref()).encode();
    let identity = Identity {
        node: node.settings.node.clone(),
        ttl: node.settings.ttl,
        liveness_window: node.settings.liveness_window,
        place: node.owner.place(),
    };
    let mut owner = Vec::new();
    node.owner.encode(&mut owner);
    let commit = Commit::new()
        .check(check)
        .set(key, member.clone())
        .append(keys.changes(), member)
        .set(keys.session(joining.id), identity.encode())
        .set(keys.beat(joining.id), Beat { renewals: 0, at: now }.encode())
        .set(keys.local(&identity.place, joining.id), owner);
    match node.store.commit(commit).await {
        Ok(_) => Ok(true),
        Err(CommitError::Conflict(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sees to it that the session of this record has ended. Returns whether the record is still as it was read.
async fn make_way(node: &Node, before: &Member, take_over: bool) -> Result<bool, ClusterError> {
    if node.store.get(&node.keys.session(before.session)).await?.is_none() {
        // Its end has changed the record as well.
        return Ok(false);
    }
    let cause = if node.settings.proof_of_death && before.owner.proof(&node.owner).is_some() {
        Cause::Died
    } else if take_over {
        Cause::TakenOver
    } else {
        return Err(ClusterError::Occupied(Box::new(before.clone())));
    };
    end(node, before.session, Evidence::Certain, cause).await?;
    Ok(false)
}
