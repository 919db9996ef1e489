//! The usher: joins a registry with each session of this node, and tells the elector who has gone.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tenure_cluster::{MemberChanges, SessionId};
use tenure_server::ServerError;
use tenure_store::StoreError;

use crate::{
    Owner, RegistryError,
    elector::{MemberId, Membership},
    member::Member,
};

/// After a failure.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a follower waits at most for each other node to tell of the leader's end before it does so itself. Telling twice does no harm.
const TURN: Duration = Duration::from_millis(5);

/// How often it is looked whether this node still takes part, though nothing seems to have changed.
const ROUND: Duration = Duration::from_secs(10);

/// Runs until its task is ended.
pub(crate) async fn run(member: Arc<Member>) {
    let env = member.ground.env().clone();
    loop {
        match usher(&member).await {
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(name: "registry.not_ushered", registry = %member.registry, %error, "members can't be told at present: it is tried again");
                env.sleep(PAUSE).await;
            }
        }
    }
}

async fn usher(member: &Arc<Member>) -> Result<(), RegistryError> {
    let env = member.ground.env();
    let mut changes = member.ground.members().changes().await?;
    let (mut sessions, mut seen) = (member.ground.sessions(), member.seen.subscribe());
    loop {
        let me = member.me();
        let here = here(&changes, me.session);
        member.here.send_if_modified(|present| {
            let changed = **present != here;
            if changed {
                *present = Arc::new(here.clone());
            }
            changed
        });
        let leader = seen.borrow_and_update().leader();
        if member.ground.session().ended().is_none() && !member.leaving.load(Ordering::SeqCst) {
            join(member, &me).await?;
        }
        if let Some(leader) = &leader
            && !here.contains(&leader.session)
        {
            // Not all at once.
            let others = u32::try_from(here.len()).unwrap_or(u32::MAX);
            env.sleep(env.random_time(TURN * others.saturating_sub(1))).await;
            let same = member.seen.borrow().leader().as_ref() == Some(leader);
            if same && has_ended(member, leader.session).await? {
                down(member, leader).await?;
            }
        }
        if leader.as_ref() == Some(&me) {
            dismiss(member, &here).await?;
        }
        tokio::select! {
            biased;
            changed = sessions.changed() => {
                if changed.is_err() {
                    // The node has left.
                    return Ok(());
                }
            }
            changed = changes.next() => drop(changed?),
            _ = seen.changed() => {}
            // One that was declared down by mistake joins again, though nothing else has changed.
            () = env.sleep(ROUND) => {}
        }
    }
}

/// The sessions of all nodes that are there.
fn here(changes: &MemberChanges, own: SessionId) -> BTreeSet<SessionId> {
    let members = changes.members().values().filter(|member| member.is_here());
    members.map(|member| member.session).chain([own]).collect()
}

/// Takes part, unless this node does already.
async fn join(member: &Member, me: &Owner) -> Result<(), RegistryError> {
    let id = MemberId::new(&me.node, me.session);
    let asked = id.clone();
    if !member.elector.read(move |council| council.is_member(&asked)).await? {
        cast(member, Membership::Join(id)).await?;
    }
    Ok(())
}

/// Tells the elector of all members that have gone. The leader does that.
async fn dismiss(member: &Member, here: &BTreeSet<SessionId>) -> Result<(), RegistryError> {
    let members = member.elector.read(|council| {
        let members = council.members.iter();
        let ids = members.map(|(node, joined)| MemberId { node: node.clone(), token: joined.token });
        ids.collect::<Vec<_>>()
    });
    for gone in members.await? {
        let Some(owner) = gone.owner() else { continue };
        if !here.contains(&owner.session) && has_ended(member, owner.session).await? {
            down(member, &owner).await?;
        }
    }
    Ok(())
}

/// Whether a session has ended, for sure.
pub(crate) async fn has_ended(member: &Member, session: SessionId) -> Result<bool, StoreError> {
    use tenure_store::{Read, Store as _};
    let found = member.ground.store().read(vec![Read::Key(member.log.keys.session(session))]).await?;
    Ok(found.key(0).is_none())
}

async fn down(member: &Member, gone: &Owner) -> Result<(), RegistryError> {
    cast(member, Membership::MemberDown(MemberId::new(&gone.node, gone.session))).await
}

/// Tells the elector. Telling it twice does no harm.
pub(crate) async fn cast(member: &Member, membership: Membership) -> Result<(), RegistryError> {
    let mut pauses = member.ground.retry().start(member.ground.env());
    loop {
        match member.elector.cast(membership.clone()).await {
            Ok(()) => return Ok(()),
            Err(error @ (ServerError::Invalid(_) | ServerError::Left)) => return Err(error.into()),
            Err(error) => {
                if !pauses.pause().await {
                    return Err(error.into());
                }
            }
        }
    }
}
