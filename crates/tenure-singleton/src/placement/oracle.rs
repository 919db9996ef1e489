//! [`SpreadOracle`]: stands in the election of a singleton only where the placer wants it to run.

use async_trait::async_trait;
use tenure_store::latest;

use super::board::{Entry, Wish};
use crate::{Answer, Asked, ElectionOracle, Oracle};

/// The election of a spread singleton. It is the election that decides; this only decides who stands.
#[derive(Debug)]
pub(crate) struct SpreadOracle {
    election: ElectionOracle,
    entry: Entry,
    wish: latest::Receiver<Wish>,
}

impl SpreadOracle {
    pub(crate) fn new(election: ElectionOracle, entry: Entry, wish: latest::Receiver<Wish>) -> Self {
        Self { election, entry, wish }
    }

    fn told(&self, answer: Answer) -> Answer {
        if let Answer::Granted(grant) = &answer {
            self.entry.runs(grant.term.unwrap_or_default());
        }
        answer
    }
}

#[async_trait]
impl Oracle for SpreadOracle {
    /// Waits until it is to stand, and then for the office, for as long as it is to stand.
    async fn claim(&mut self) -> Answer {
        self.election.forget();
        self.entry.wants();
        // What was tried, so that it is tried once.
        let mut tried = None;
        loop {
            let wish = self.wish.borrow_and_update().clone();
            match &wish {
                Wish::Idle => {}
                Wish::Stand => {
                    let mut present = self.wish.clone();
                    let won = tokio::select! {
                        biased;
                        answer = self.election.claim() => Some(answer),
                        // The candidate leaves the queue, and gives up what it may have won by then.
                        _ = present.wait_for(|wish| *wish != Wish::Stand) => None,
                    };
                    match won {
                        Some(answer) => return self.told(answer),
                        None => continue,
                    }
                }
                Wish::Try(_) | Wish::Yield(_) if tried.as_ref() == Some(&wish) => {}
                Wish::Try(_) | Wish::Yield(_) => {
                    tried = Some(wish.clone());
                    match self.election.try_claim().await {
                        Answer::Denied { .. } => continue,
                        answer => return self.told(answer),
                    }
                }
            }
            if self.wish.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn refresh(&mut self) -> Answer {
        self.election.refresh().await
    }

    async fn abdicate(&mut self, successor: Option<&str>) -> Answer {
        if successor.is_none() {
            // It rests, or ends: somebody else is to be found.
            self.entry.declines();
        }
        let answer = self.election.abdicate(successor).await;
        self.entry.stopped();
        answer
    }

    async fn signal(&mut self) {
        self.election.signal().await;
    }

    /// Where it is to run instead is the placer's decision: this node declines, whoever was named.
    fn asked(&self) -> Asked {
        let asked = self.election.asked();
        Box::pin(async move {
            asked.await;
            None
        })
    }
}
