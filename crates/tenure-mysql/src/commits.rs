//! How commits are made: each by one call of a procedure, in one round trip.

use std::sync::Arc;

use mysql_async::{Statement, prelude::Queryable as _};
use tenure_store::{
    Commit, CommitError, Conflict, Range, Reason, Receipt, StoreError, Version, WatchHub, Write,
};
use tokio::sync::oneshot;

use crate::{
    crew::{Crew, Work},
    error::{commit_error, connection_survives, is_contention, store_error},
    note::Stamp,
    pack::{self, Signature},
    session::{Connector, Purpose, Session},
    sql::Statements,
};

/// Makes commits.
#[derive(Debug)]
pub(crate) struct Commits(Crew<Committing>);

#[derive(Debug)]
struct Committing {
    connector: Connector,
    statements: Arc<Statements>,
    hub: WatchHub,
}

#[derive(Debug)]
struct Request {
    commit: Commit,
    answer: oneshot::Sender<Result<Receipt, CommitError>>,
}

impl Commits {
    pub(crate) fn new(connector: &Connector, statements: &Arc<Statements>, hub: &WatchHub) -> Self {
        let work =
            Committing { connector: connector.clone(), statements: Arc::clone(statements), hub: hub.clone() };
        Self(Crew::new(work, connector, connector.settings.connections))
    }

    pub(crate) fn lend(&self, session: Session) {
        self.0.lend(session);
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let (answer, answered) = oneshot::channel();
        self.0.ask(Request { commit, answer })?;
        answered.await.unwrap_or_else(|lost| {
            Err(CommitError::unknown(Reason::caused("commit: the task that made it ended early", lost)))
        })
    }

    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

impl Work for Committing {
    type Request = Request;

    /// A procedure makes one commit: its locks are released by its own COMMIT.
    fn joins(&self, _taken: &[Request], _next: &Request) -> bool {
        false
    }

    async fn serve(&self, requests: Vec<Request>, mut session: Option<Session>) -> Option<Session> {
        for Request { commit, answer } in requests {
            let outcome = match self.connector.ready(session.take(), Purpose::Write).await {
                Ok(mut ready) => {
                    let outcome = self.make(&commit, &mut ready).await;
                    session = self.settle(&outcome, ready).await;
                    outcome.map_err(Failure::into_error).and_then(|answer| answer.receipt(&commit))
                }
                Err(error) => Err(error.into()),
            };
            // Also where the outcome is unknown: it may have happened, and nobody else would tell.
            if matches!(outcome, Ok(_) | Err(CommitError::OutcomeUnknown(_))) {
                self.hub.wake(commit.writes.iter().map(Write::range).collect::<Vec<Range>>());
            }
            // Whoever asked may have gone.
            let _ = answer.send(outcome);
        }
        session
    }

    fn refuse(&self, request: Request, error: StoreError) {
        let _ = request.answer.send(Err(error.into()));
    }
}

/// What the procedure answers.
struct Answer {
    failed: Option<u64>,
    version: u64,
}

impl Answer {
    fn receipt(self, commit: &Commit) -> Result<Receipt, CommitError> {
        let Some(failed) = self.failed else { return Ok(Receipt { version: Version(self.version) }) };
        let index = usize::try_from(failed).unwrap_or(usize::MAX);
        match commit.checks.get(index) {
            Some(check) => Err(Conflict::Check { index, key: check.key().clone() }.into()),
            None => {
                Err(StoreError::corrupt(format!("the procedure refused check {failed}, which there is not"))
                    .into())
            }
        }
    }
}

/// Why there is no answer, and whether the session can still be used.
enum Failure {
    /// The server said why. The transaction may be open still.
    Told(CommitError),
    /// The session is not to be used again.
    Lost(CommitError),
}

impl Failure {
    fn into_error(self) -> CommitError {
        match self {
            Self::Told(error) | Self::Lost(error) => error,
        }
    }
}

impl Committing {
    /// Makes a commit in one round trip. (A session's first has two before it, which give it a number and prepare the statement.)
    async fn make(&self, commit: &Commit, session: &mut Session) -> Result<Answer, Failure> {
        let time = self.connector.settings.request_timeout;
        let preparing = self.prepare(session);
        let (statement, signature) = match self.connector.env.timeout(time, preparing).await {
            Ok(Ok(prepared)) => prepared,
            // Nothing of the commit has been sent yet.
            Ok(Err(error)) if is_contention(&error) => {
                return Err(Failure::Told(Conflict::Contention.into()));
            }
            Ok(Err(error)) => return Err(Failure::Lost(store_error("prepare a commit", error).into())),
            Err(elapsed) => {
                let reason = Reason::caused(format!("prepare a commit: {elapsed}"), elapsed);
                return Err(Failure::Lost(StoreError::unavailable(reason).into()));
            }
        };
        let arguments = pack::commit(commit, signature);
        let calling = session.conn.exec_first::<(Option<u64>, u64), _, _>(&statement, arguments);
        match self.connector.env.timeout(time, calling).await {
            Ok(Ok(Some((failed, version)))) => {
                session.seen = self.connector.env.now();
                if failed.is_none() && !commit.writes.is_empty() {
                    session.notes += 1;
                }
                Ok(Answer { failed, version })
            }
            Ok(Ok(None)) => Err(Failure::Lost(CommitError::unknown("commit: the procedure gave no answer"))),
            Ok(Err(error)) if connection_survives(&error) => Err(Failure::Told(commit_error(error))),
            Ok(Err(error)) => Err(Failure::Lost(commit_error(error))),
            Err(elapsed) => Err(Failure::Lost(CommitError::unknown(Reason::caused(
                format!("commit: {elapsed}"),
                elapsed,
            )))),
        }
    }

    async fn prepare(&self, session: &mut Session) -> mysql_async::Result<(Statement, Signature)> {
        let number = match session.number {
            Some(number) => number,
            None => {
                session.conn.query_drop(&self.statements.number).await?;
                // The last bytes will do: nobody holds on to a version while 65,536 sessions come and go.
                let [.., high, low] = session.conn.last_insert_id().unwrap_or(0).to_be_bytes();
                *session.number.insert(u16::from_be_bytes([high, low]))
            }
        };
        let statement = session.conn.prep(&self.statements.commit).await?;
        let Session { locker, desk, id, notes, .. } = *session;
        let stamp = Stamp { session: id, number: notes + 1 };
        Ok((statement, Signature { locker, desk, number, stamp }))
    }

    /// Leaves the session without a transaction, or leaves it altogether. A session whose outcome is unknown is closed before anybody hears
    /// of it: from then on its notes are read like those of others.
    async fn settle(&self, outcome: &Result<Answer, Failure>, mut session: Session) -> Option<Session> {
        let good = match outcome {
            Ok(_) => true,
            Err(Failure::Told(CommitError::OutcomeUnknown(_)) | Failure::Lost(_)) => false,
            Err(Failure::Told(_)) => {
                // Some errors end only the statement: the transaction is ours to end.
                let rollback = session.conn.query_drop("ROLLBACK");
                matches!(
                    self.connector.env.timeout(self.connector.settings.connect_timeout, rollback).await,
                    Ok(Ok(()))
                )
            }
        };
        if good {
            return Some(session);
        }
        self.connector.part(session).await;
        None
    }
}
