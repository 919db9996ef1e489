//! [`Herald`]: tells the placer what this node offers and runs, many singletons in one commit.

use std::sync::Arc;

use tenure_cluster::{Ground, Session, SessionId};
use tenure_store::{Check, Commit, CommitError, Conflict};

use super::{
    COLLECT, PAGES_MAX,
    board::Board,
    book::Book,
    record::{Offer, Run, prefix},
    store,
};

/// Writes what a [`Board`] announces, for each session anew.
#[derive(Debug)]
pub(crate) struct Herald {
    ground: Ground,
    board: Arc<Board>,
}

/// What is in the store of one session.
#[derive(Debug)]
struct Told {
    session: SessionId,
    offers: Book<Offer>,
    runs: Book<Run>,
    /// Whether a commit may have changed it without our knowing.
    doubt: bool,
}

impl Told {
    fn new(ground: &Ground, session: SessionId) -> Self {
        let keys = ground.keys();
        Self {
            session,
            offers: Book::new(prefix::<Offer>(keys, session)),
            runs: Book::new(prefix::<Run>(keys, session)),
            doubt: false,
        }
    }
}

impl Herald {
    pub(crate) fn new(ground: Ground, board: Arc<Board>) -> Self {
        Self { ground, board }
    }

    /// Runs until its task is ended, or the node has left.
    pub(crate) async fn run(self) {
        let mut sessions = self.ground.sessions();
        let mut news = self.board.news();
        let mut told: Option<Told> = None;
        loop {
            let session: Session = sessions.borrow_and_update().clone();
            if session.ended().is_some() {
                if sessions.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let mut present = match told.take() {
                Some(told) if told.session == session.id() => told,
                _ => Told::new(&self.ground, session.id()),
            };
            drop(news.borrow_and_update());
            let done = self.tell(&mut present).await;
            told = Some(present);
            if let Err(error) = done {
                tracing::debug!(%error, "what this node offers could not be told: it is tried again");
                self.ground.env().sleep(self.ground.settings().renewal_interval / 8).await;
                continue;
            }
            tokio::select! {
                biased;
                changed = sessions.changed() => if changed.is_err() { return },
                _ = news.changed() => {}
            }
            // What comes together is told together.
            self.ground.env().sleep(COLLECT).await;
        }
    }

    /// Writes what is new.
    async fn tell(&self, told: &mut Told) -> Result<(), CommitError> {
        if told.doubt {
            store::read(&self.ground, vec![&mut told.offers]).await?;
            store::read(&self.ground, vec![&mut told.runs]).await?;
            told.doubt = false;
        }
        let (offers, runs) = self.board.announced();
        let own = Check::Present(self.ground.keys().session(told.session));
        // Never a run before its offer: it would look like one that has to go elsewhere.
        let (mut offers, mut runs) = (told.offers.plan(&offers), told.runs.plan(&runs));
        while !offers.is_empty() || !runs.is_empty() {
            let offered: Vec<_> = offers.drain(..offers.len().min(PAGES_MAX)).collect();
            let run: Vec<_> = runs.drain(..runs.len().min(PAGES_MAX - offered.len())).collect();
            let pages = offered.iter().map(|draft| (draft.check.clone(), draft.write.clone()));
            let pages = pages.chain(run.iter().map(|draft| (draft.check.clone(), draft.write.clone())));
            let version = self.commit(pages.collect(), &own, &mut told.doubt).await?;
            told.offers.landed(offered, version);
            told.runs.landed(run, version);
        }
        Ok(())
    }

    async fn commit(
        &self,
        pages: Vec<store::Change>,
        own: &Check,
        doubt: &mut bool,
    ) -> Result<tenure_store::Version, CommitError> {
        let commit = Commit::new().check(own.clone());
        let answer = store::commit(&self.ground, commit, pages).await;
        // Whatever it was: what is there by now is read before the next try.
        *doubt = answer.is_err();
        if let Err(CommitError::Conflict(Conflict::Check { index: 0, .. })) = &answer {
            tracing::debug!("the session has ended: what this node offers is told with the next one");
        }
        answer
    }
}
