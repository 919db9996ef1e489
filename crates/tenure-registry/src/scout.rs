//! The scout: watches who leads, and keeps names up to date where no stream does.

use std::{sync::Arc, time::Duration};

use tenure_store::{Range, Store as _, Watch};

use crate::{
    member::{HEARTBEAT, Member, SILENCE},
    message::Message,
};

/// After a failure of the store.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the leader is given to hear that it is followed.
const GREETING: Duration = Duration::from_millis(200);

/// Runs until its task is ended.
pub(crate) async fn run(member: Arc<Member>) {
    let env = member.ground.env().clone();
    let store = Arc::clone(member.ground.store());
    let mut leader = store.watch(Range::Key(member.log.keys.leader.clone()));
    let mut log: Option<Watch> = None;
    let mut sessions = member.ground.sessions();
    let (mut greeted, mut asked, mut deaf) = (None, env.now(), member.wire.is_none());
    loop {
        while let Err(error) = member.refresh().await {
            tracing::debug!(name: "registry.not_read", registry = %member.registry, %error, "names can't be read at present: it is tried again");
            env.sleep(PAUSE).await;
        }
        let (seen, silent) = (member.seen.borrow().leader(), is_silent(&member));
        if member.wire.is_some() && (seen != greeted || silent) {
            asked = env.now();
            // Not for long: this node may be elected meanwhile.
            deaf = !env.timeout(GREETING, greet(&member)).await.unwrap_or(false) || silent;
            greeted = seen;
        } else if *member.heard.lock() > asked {
            deaf = member.wire.is_none();
        }
        // Whoever is not told by the leader looks at the log itself.
        match &log {
            None if deaf => {
                log = Some(store.watch(member.log.keys.log()));
                continue;
            }
            Some(_) if !deaf => log = None,
            _ => {}
        }
        loop {
            tokio::select! {
                biased;
                changed = sessions.changed() => {
                    if changed.is_err() {
                        // The node has left.
                        return;
                    }
                    break;
                }
                () = leader.changed() => break,
                () = async {
                    match &mut log {
                        Some(log) => log.changed().await,
                        None => std::future::pending().await,
                    }
                } => break,
                () = env.sleep(HEARTBEAT) => {
                    if member.wire.is_some() && is_silent(&member) {
                        break;
                    }
                }
            }
        }
    }
}

/// Whether a leader other than this node has not been heard for too long.
fn is_silent(member: &Member) -> bool {
    let leader = member.seen.borrow().leader();
    let other = leader.is_some_and(|leader| leader != member.me());
    other && member.ground.env().now() - *member.heard.lock() > SILENCE
}

/// Tells the leader that this node wants its stream. Returns whether it has heard that.
async fn greet(member: &Arc<Member>) -> bool {
    let leader = member.seen.borrow().leader();
    let (Some(leader), Some(wire)) = (leader, &member.wire) else { return true };
    leader == member.me() || wire.send(&leader.node, &member.topic, Message::Hello.encode()).await.is_ok()
}
