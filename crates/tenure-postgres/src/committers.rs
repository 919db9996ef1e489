//! [`Committers`]: the connections that make commits, each with a task of its own.
//!
//! A commit is made in a task that nobody can drop. Each task has one statement under way at a time. When it is free it takes the next commit
//! from a queue that all share, and of those that wait besides, its share: they are made in one statement, with one flush. A
//! connection is made when there is something to commit and none is there.

use async_channel::{Receiver, Sender};
use tenure_store::{
    Commit, CommitError, Conflict, Range, Reason, Receipt, StoreError, Version, WatchHub, Write,
};
use tokio::sync::oneshot;
use tokio_postgres::Row;

use crate::{
    apply::Batch,
    connection::{Connector, Link},
    error::commit_error,
    herald::Herald,
};

/// Commits that wait for a connection. More wait for a place here, which costs them nothing but the wait.
const QUEUE_MAX: usize = 1024;

/// The connections that commit.
#[derive(Debug)]
pub(crate) struct Committers {
    queue: Sender<Job>,
}

struct Job {
    commit: Commit,
    answer: oneshot::Sender<Result<Receipt, CommitError>>,
}

struct Committer {
    connector: Connector,
    /// Who we are, for listeners.
    process: i64,
    hub: WatchHub,
    herald: Herald,
    jobs: Receiver<Job>,
    /// A job that was taken and could not be made with the others.
    next: Option<Job>,
    link: Option<Link>,
}

impl Committers {
    pub(crate) fn start(connector: &Connector, process: i64, hub: &WatchHub, herald: &Herald) -> Self {
        let (queue, jobs) = async_channel::bounded(QUEUE_MAX);
        for _ in 0..connector.settings().connections {
            let committer = Committer {
                connector: connector.clone(),
                process,
                hub: hub.clone(),
                herald: herald.clone(),
                jobs: jobs.clone(),
                next: None,
                link: None,
            };
            tokio::spawn(committer.run());
        }
        Self { queue }
    }

    pub(crate) async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let (answer, answered) = oneshot::channel();
        if self.queue.send(Job { commit, answer }).await.is_err() {
            return Err(closed().into());
        }
        // A task that was ended with its runtime took the job with it, sent or not.
        answered.await.unwrap_or_else(|_| Err(CommitError::unknown("the runtime of the store was shut down")))
    }

    /// Takes no more commits. Those in the queue are made.
    pub(crate) fn stop(&self) {
        self.queue.close();
    }
}

/// The answer to whoever comes after the store was closed.
pub(crate) fn closed() -> StoreError {
    StoreError::Closed("this store was closed: open it again".into())
}

impl Committer {
    async fn run(mut self) {
        while let Some(jobs) = self.take().await {
            let (commits, answers): (Vec<Commit>, Vec<_>) =
                jobs.into_iter().map(|Job { commit, answer }| (commit, answer)).unzip();
            let outcomes = self.make(&commits).await;
            for ((commit, answer), outcome) in commits.into_iter().zip(answers).zip(outcomes) {
                if let Ok((_, heard)) = &outcome {
                    self.tell(commit.writes, *heard);
                }
                // Nobody may be waiting any more.
                let _ = answer.send(outcome.map(|(receipt, _)| receipt));
            }
        }
    }

    /// The next commit, and those that can be made along with it; `None` when there will be no more.
    async fn take(&mut self) -> Option<Vec<Job>> {
        let first = match self.next.take() {
            Some(job) => job,
            None => self.jobs.recv().await.ok()?,
        };
        let mut jobs = vec![first];
        if Batch::may_share(&jobs[0].commit) {
            let more = Batch::share(self.jobs.len(), self.connector.settings().connections);
            for _ in 0..more {
                let Ok(job) = self.jobs.try_recv() else { break };
                if !Batch::may_share(&job.commit) {
                    self.next = Some(job);
                    break;
                }
                jobs.push(job);
            }
        }
        Some(jobs)
    }

    /// Makes commits; returns for each its outcome, and whether other processes want to know of it.
    async fn make(&mut self, commits: &[Commit]) -> Vec<Result<(Receipt, bool), CommitError>> {
        match self.call(commits).await {
            Ok(rows) => {
                // A commit without a row would be one whose outcome was not told.
                let mut outcomes: Vec<_> = commits
                    .iter()
                    .map(|_| Err(CommitError::unknown("the function apply gave no answer")))
                    .collect();
                for row in &rows {
                    let place = usize::try_from(row.get::<_, i32>(0)).unwrap_or(usize::MAX);
                    if let Some(outcome) = outcomes.get_mut(place) {
                        *outcome = told(&commits[place], row);
                    }
                }
                outcomes
            }
            Err(error) => vec![Err(error); commits.len()],
        }
    }

    async fn call(&mut self, commits: &[Commit]) -> Result<Vec<Row>, CommitError> {
        let link = match self.link.take() {
            Some(link) if !link.is_lost() => link,
            _ => self.connector.connect().await?,
        };
        let settings = self.connector.settings();
        let batch = Batch::new(&settings.schema, self.process, commits);
        let (statement, parameters) = (batch.statement(&settings.schema), batch.parameters());
        let calling = link.client().query_typed(&statement, &parameters);
        // From here on the outcome is unknown until the answer is there.
        match self.connector.env().timeout(settings.request_timeout, calling).await {
            Ok(answered) => {
                self.link = Some(link);
                answered.map_err(commit_error)
            }
            Err(elapsed) => {
                link.abandon();
                Err(CommitError::unknown(Reason::caused(format!("commit: {elapsed}"), elapsed)))
            }
        }
    }

    /// Tells watches of this process, and of others if they listen.
    fn tell(&self, writes: Vec<Write>, heard: bool) {
        let ranges: Vec<Range> = writes.iter().map(Write::range).collect();
        if ranges.is_empty() {
            return;
        }
        self.hub.wake(ranges.iter().cloned());
        self.herald.made(ranges, heard);
    }
}

/// What a row says of a commit: its version, or which check did not hold, counted from 1 and negative.
fn told(commit: &Commit, row: &Row) -> Result<(Receipt, bool), CommitError> {
    let outcome: i64 = row.get(1);
    if let Ok(version) = u64::try_from(outcome) {
        return Ok((Receipt { version: Version(version) }, row.get(2)));
    }
    let index = usize::try_from(-(outcome + 1)).ok();
    match index.and_then(|index| Some((index, commit.checks.get(index)?))) {
        Some((index, check)) => {
            Err(CommitError::Conflict(Conflict::Check { index, key: check.key().clone() }))
        }
        None => Err(StoreError::corrupt(format!("the function apply answered {outcome} for a check")).into()),
    }
}
