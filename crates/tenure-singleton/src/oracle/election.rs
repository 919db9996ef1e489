//! [`ElectionOracle`]: our own election, on any store.

use async_trait::async_trait;
use tenure_cluster::{ClusterError, Election, Leadership};
use tenure_store::{Env, Name};

use super::{Answer, Asked, Grant, Oracle, Validity};

/// An election of this cluster. It is asked for nothing while it leads: the session's heartbeat, which is there anyhow, keeps the leadership.
#[derive(Debug)]
pub struct ElectionOracle {
    election: Election,
    priority: i32,
    env: Env,
    held: Option<Leadership>,
}

impl ElectionOracle {
    /// Stands in this election, before all candidates of less priority; 0 is usual.
    #[must_use]
    pub fn new(election: Election, priority: i32, env: Env) -> Self {
        Self { election, priority, env, held: None }
    }

    /// Takes the office if it is free and nobody waits for it, or if it is this session's already.
    pub(crate) async fn try_claim(&mut self) -> Answer {
        self.held = None;
        match self.election.try_campaign().await {
            Ok(leadership) => self.held = leadership,
            Err(error) => return Answer::unknown(error),
        }
        self.answer()
    }

    /// Gives up what is left of a leadership that was lost.
    pub(crate) fn forget(&mut self) {
        self.held = None;
    }

    fn answer(&self) -> Answer {
        let Some(held) = &self.held else { return Answer::Denied { retry_after: None, holder: None } };
        // The clock first: this process may be stopped between the two.
        let (now, left) = (self.env.now(), held.remaining());
        if left.is_zero() {
            return Answer::Denied { retry_after: None, holder: None };
        }
        Answer::Granted(Grant {
            validity: Validity::Until(now.after(left)),
            // Only a look at our own session: a renewal should soon be seen.
            refresh_after: Some(held.session().ttl() / 12),
            term: Some(held.term().0),
            guard: Some(held.guard()),
        })
    }
}

#[async_trait]
impl Oracle for ElectionOracle {
    async fn claim(&mut self) -> Answer {
        self.held = None;
        match self.election.campaign_with(self.priority).await {
            Ok(leadership) => self.held = Some(leadership),
            Err(error) => return Answer::unknown(error),
        }
        self.answer()
    }

    async fn refresh(&mut self) -> Answer {
        self.answer()
    }

    async fn abdicate(&mut self, successor: Option<&str>) -> Answer {
        let Some(held) = self.held.take() else { return Answer::Denied { retry_after: None, holder: None } };
        let given = match successor.and_then(|name| name.parse::<Name>().ok()) {
            Some(successor) => match held.hand_over(&successor).await {
                Ok(()) => Ok(()),
                // Nobody waits under that name: whoever waits first gets it.
                Err((_, Some(held))) => held.resign().await,
                Err((error, None)) => Err(error),
            },
            None => held.resign().await,
        };
        match given {
            Ok(()) | Err(ClusterError::Left | ClusterError::Fenced(_)) => {
                Answer::Denied { retry_after: None, holder: None }
            }
            Err(error) => Answer::unknown(error),
        }
    }

    async fn signal(&mut self) {
        match &self.held {
            Some(held) => held.lost().await,
            None => std::future::pending().await,
        }
    }

    fn asked(&self) -> Asked {
        let held = self.held.as_ref().map(|held| (held.session().id(), held.term()));
        let election = self.election.clone();
        Box::pin(async move {
            match held {
                Some((session, term)) => election.asked(session, term).await.to,
                None => std::future::pending().await,
            }
        })
    }
}
