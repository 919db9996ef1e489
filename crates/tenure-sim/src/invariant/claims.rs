//! [`Claims`]: what owners and askers of names were told, against each other.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_cluster::SessionId;

use super::{Chronicle, OneOwner};

/// A registration that was acknowledged.
#[derive(Clone, Debug)]
struct Claim {
    process: u64,
    name: String,
    session: SessionId,
    number: u64,
    acknowledged: Duration,
    /// Whether its owner has begun to take it back.
    given_up: bool,
    /// When its owner was told that it is taken back.
    free: Option<Duration>,
}

/// All registrations that were acknowledged. Clones are the same.
///
/// - **Unique**: from its acknowledgement until its owner begins to take it back, or holds it to be lost, or the owner's session ends, no other of the same name is acknowledged.
/// - **Linearizable**: a consistent look-up that began after an acknowledgement, and ended before that, shows it. One that began after its owner was told that it is taken back does not.
#[derive(Clone, Debug)]
pub struct Claims {
    chronicle: Chronicle,
    owners: OneOwner,
    claims: Arc<Mutex<Vec<Claim>>>,
}

impl Claims {
    /// None yet. The chronicle tells when sessions end, and the owners what they believe.
    #[must_use]
    pub fn new(chronicle: Chronicle, owners: OneOwner) -> Self {
        Self { chronicle, owners, claims: Arc::default() }
    }

    /// Whether nothing has begun that could free it. What an owner holds to be lost is lost; one that was killed can't tell, so that its session decides.
    fn stands(&self, claim: &Claim) -> bool {
        !claim.given_up
            && self.chronicle.exists(claim.session)
            && (self.owners.is_dead(claim.process)
                || self.owners.live(&claim.name).contains(&(claim.session, claim.number)))
    }

    /// The owner was told at this moment that the name is registered.
    ///
    /// # Errors
    /// Another one that stands.
    pub fn acknowledged(
        &self,
        process: u64,
        name: &str,
        (session, number): (SessionId, u64),
        now: Duration,
    ) -> Result<(), String> {
        let mut claims = self.claims.lock();
        if let Some(other) = claims.iter().find(|claim| claim.name == name && self.stands(claim)) {
            return Err(format!(
                "{name} was acknowledged to {session} number {number} while {other:?} stands"
            ));
        }
        let name = name.to_owned();
        claims.push(Claim { process, name, session, number, acknowledged: now, given_up: false, free: None });
        Ok(())
    }

    /// The owner begins to take it back, or has lost it.
    pub fn gives_up(&self, session: SessionId, number: u64) {
        self.with(session, number, |claim| claim.given_up = true);
    }

    /// The owner was told at this moment that it is taken back.
    pub fn freed(&self, session: SessionId, number: u64, now: Duration) {
        self.with(session, number, |claim| claim.free = Some(now));
    }

    fn with(&self, session: SessionId, number: u64, change: impl FnOnce(&mut Claim)) {
        let mut claims = self.claims.lock();
        let found = claims.iter_mut().find(|claim| (claim.session, claim.number) == (session, number));
        if let Some(claim) = found {
            change(claim);
        }
    }

    /// A consistent look-up that began at that moment has ended just now, with this.
    ///
    /// # Errors
    /// What it should have seen, or should not.
    pub fn looked_up(
        &self,
        name: &str,
        begun: Duration,
        found: Option<(SessionId, u64)>,
    ) -> Result<(), String> {
        for claim in self.claims.lock().iter().filter(|claim| claim.name == name) {
            let shown = found == Some((claim.session, claim.number));
            if !shown && claim.acknowledged < begun && self.stands(claim) {
                return Err(format!("a look-up that began at {begun:?} shows {found:?} and not {claim:?}"));
            }
            if shown && claim.free.is_some_and(|free| free < begun) {
                return Err(format!("a look-up that began at {begun:?} shows {claim:?}"));
            }
        }
        Ok(())
    }
}
