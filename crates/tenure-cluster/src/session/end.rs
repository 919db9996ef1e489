//! How a session ends: by one commit, whoever makes it.

use tenure_store::{Check, Commit, CommitError, Conflict, Key, StoreError, StoreExt as _, Version};

use super::{Identity, SessionId};
use crate::{Cause, Member, MemberState, node::Node};

/// Why a session may be ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Evidence {
    /// Its beat has stood still in this version, for the whole ttl.
    Unrenewed(Version),
    /// Its owner says so, or is known to be dead, or an operator wants it.
    Certain,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It has ended now, by this call.
    Now,
    /// It had ended before, or its end was the outcome of an earlier try.
    Before,
    /// It was renewed meanwhile.
    Renewed,
}

/// Ends a session: its keys are deleted, and its member is recorded as gone.
///
/// # Errors
/// As the store's. After [`CommitError::OutcomeUnknown`] it may be tried again: a session that has ended stays so.
pub(crate) async fn end(
    node: &Node,
    id: SessionId,
    evidence: Evidence,
    cause: Cause,
) -> Result<Ended, CommitError> {
    // Conflicts come from changes of the member's record, each of which is somebody's progress; few can happen in a row.
    const TRIES_MAX: usize = 20;
    let mut last = Conflict::Contention;
    for _ in 0..TRIES_MAX {
        let Some(ending) = build(node, id, evidence, cause).await? else { return Ok(Ended::Before) };
        match node.store.commit(ending.commit).await {
            Ok(_) => {
                tracing::info!(session = %id, %cause, node = %ending.identity.node, "session ended");
                metrics::counter!("tenure_sessions_ended_total", "cause" => cause.as_str()).increment(1);
                return Ok(Ended::Now);
            }
            Err(CommitError::Conflict(Conflict::Check { key, .. }))
                if matches!(evidence, Evidence::Unrenewed(_)) && key == node.keys.beat(id) =>
            {
                // Either renewed or ended; the former if there is still a beat.
                let found = node.store.get(&key).await?;
                return Ok(if found.is_some() { Ended::Renewed } else { Ended::Before });
            }
            Err(CommitError::Conflict(conflict)) => last = conflict,
            Err(error) => return Err(error),
        }
    }
    Err(last.into())
}

struct Ending {
    commit: Commit,
    identity: Identity,
}

/// The commit that ends a session, if it exists.
async fn build(
    node: &Node,
    id: SessionId,
    evidence: Evidence,
    cause: Cause,
) -> Result<Option<Ending>, StoreError> {
    let keys = &node.keys;
    let (session, beat) = (keys.session(id), keys.beat(id));
    let Some(found) = node.store.get(&session).await? else { return Ok(None) };
    let identity = Identity::decode(&session, &found.value)?;
    let proof = match evidence {
        Evidence::Unrenewed(version) => Check::Version(beat.clone(), version),
        Evidence::Certain => Check::Present(session.clone()),
    };
    let commit = Commit::new()
        .check(proof)
        .delete(session)
        .delete(beat)
        .delete_range(keys.belongings(id).range())
        .delete(keys.local(&identity.place, id));
    let member = keys.member(&identity.node);
    let commit = match node.store.get(&member).await? {
        Some(found) => {
            let record = Member::decode(&member, &found.value)?;
            let check = Check::Version(member.clone(), found.version);
            if record.session == id {
                turn(node, commit.check(check), &member, &record, cause)
            } else {
                commit
            }
        }
        None => commit,
    };
    Ok(Some(Ending { commit, identity }))
}

fn turn(node: &Node, commit: Commit, key: &Key, record: &Member, cause: Cause) -> Commit {
    let gone = record.turned(MemberState::Gone(cause), node.env.unix_time()).encode();
    commit.set(key.clone(), gone.clone()).append(node.keys.changes(), gone)
}
