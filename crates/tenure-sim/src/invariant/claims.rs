//! [`Claims`]: what owners and askers of names were told, against each other.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tenure_cluster::SessionId;

use super::{Chronicle, OneOwner};

/// A registration that was acknowledged.
#[derive(Clone, Debug)]
struct Claim {
    name: String,
    session: SessionId,
    number: u64,
    acknowledged: Duration,
    /// Whether its owner has begun to take it back.
    given_up: bool,
    /// When its owner was told that it is taken back.
    free: Option<Duration>,
}

/// A registration that was asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    name: String,
    /// Whose question it is, and since when: told with what is wrong.
    #[allow(dead_code, reason = "read by `Debug`")]
    session: SessionId,
    #[allow(dead_code, reason = "read by `Debug`")]
    begun: Duration,
    /// Up to where the log was then.
    tip: u64,
}

/// All registrations that were asked for and acknowledged. Clones are the same.
///
/// - **Unique**: from its acknowledgement until its owner begins to take it back, or holds it to be lost, or the owner's session ends, no other of the same name is acknowledged.
/// - **Linearizable**: a consistent look-up that began after an acknowledgement, and ended before that, shows it. One that began after its owner was told that it is taken back does not.
/// - **Taken with reason**: whoever is told that a name is another's is told of one that had it, by the log, at some instant between question and answer.
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

    /// A registration is asked for from this moment on.
    #[must_use]
    pub fn asks(&self, name: &str, session: SessionId, now: Duration) -> Asked {
        Asked { name: name.to_owned(), session, begun: now, tip: self.chronicle.tip() }
    }

    /// Whoever asked was told just now that the name is that of this session.
    ///
    /// # Errors
    /// That it had no reason to be.
    pub fn taken(&self, asked: &Asked, by: SessionId) -> Result<(), String> {
        let name = &asked.name;
        if self.chronicle.had_since(asked.tip, name, by) {
            return Ok(());
        }
        Err(format!("{asked:?} was told that {name} is taken by {by}, which had it at no time since"))
    }

    /// Whether nothing has begun that could free it. What an owner holds to be lost is lost; one that was killed while it held it can't tell, so that its session decides.
    fn stands(&self, claim: &Claim) -> bool {
        !claim.given_up
            && self.chronicle.exists(claim.session)
            && (self.owners.died_with(claim.session, claim.number)
                || self.owners.live(&claim.name).contains(&(claim.session, claim.number)))
    }

    /// The owner was told at this moment that the name is registered.
    ///
    /// # Errors
    /// Another one that stands.
    pub fn acknowledged(
        &self,
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
        claims.push(Claim { name, session, number, acknowledged: now, given_up: false, free: None });
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
