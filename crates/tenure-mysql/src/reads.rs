//! How reads are answered: all questions of a read in one statement or one call, which is one round trip and one instant.

use std::{collections::HashMap, convert::Infallible, sync::Arc};

use mysql_async::{Params, Row, Value, prelude::Queryable as _};
use tenure_store::{
    Answer, Bytes, Entry, EntryId, Item, Key, Page, Read, Reason, Snapshot, StoreError, Version, Versioned,
};
use tokio::sync::oneshot;

use crate::{
    crew::{Crew, Work},
    error::store_error,
    pack,
    session::{Connector, Purpose, Session},
    sql::{KEY_COUNTS, Statements},
};

/// How many keys are looked up at once for several reads. (One read alone may have more.)
const JOINED_KEYS_MAX: usize = KEY_COUNTS[KEY_COUNTS.len() - 1];

/// Answers reads.
#[derive(Debug)]
pub(crate) struct Reads(Crew<Reading>);

#[derive(Debug)]
struct Reading {
    connector: Connector,
    statements: Arc<Statements>,
    page_bytes: usize,
}

#[derive(Debug)]
struct Request {
    reads: Vec<Read>,
    answer: oneshot::Sender<Result<Snapshot, StoreError>>,
}

impl Reads {
    pub(crate) fn new(connector: &Connector, statements: &Arc<Statements>, page_bytes: usize) -> Self {
        let work = Reading { connector: connector.clone(), statements: Arc::clone(statements), page_bytes };
        Self(Crew::new(work, connector, connector.settings.readers))
    }

    pub(crate) async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.0.ask(Request { reads, answer })?;
        answered.await.unwrap_or_else(|lost| {
            Err(StoreError::unavailable(Reason::caused("read: the task that made it ended early", lost)))
        })
    }

    pub(crate) fn stop(&self) {
        self.0.stop();
    }
}

impl Work for Reading {
    type Request = Request;

    /// Reads of a few keys each are looked up together.
    fn joins(&self, taken: &[Request], next: &Request) -> bool {
        let all = || taken.iter().chain([next]);
        all().all(|request| only_keys(&request.reads).is_some())
            && all().map(|request| request.reads.len()).sum::<usize>() <= JOINED_KEYS_MAX
    }

    async fn serve(&self, mut requests: Vec<Request>, session: Option<Session>) -> Option<Session> {
        requests.retain(|request| !request.answer.is_closed());
        if requests.is_empty() {
            return session;
        }
        let reads: Vec<&Read> = requests.iter().flat_map(|request| &request.reads).collect();
        let (outcome, session) = self.answer(&reads, session).await;
        match outcome {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for Request { reads, answer } in requests {
                    let _ = answer.send(Ok(Snapshot::new(answers.by_ref().take(reads.len()).collect())));
                }
            }
            Err(error) => {
                for request in requests {
                    let _ = request.answer.send(Err(error.clone()));
                }
            }
        }
        session
    }

    fn refuse(&self, request: Request, error: StoreError) {
        let _ = request.answer.send(Err(error));
    }
}

/// The keys, if all that is asked for are keys, and few.
fn only_keys<'a>(reads: impl IntoIterator<Item = &'a Read>) -> Option<Vec<&'a Key>> {
    let key = |read: &'a Read| if let Read::Key(key) = read { Some(key) } else { None };
    let keys: Vec<&Key> = reads.into_iter().map(key).collect::<Option<_>>()?;
    (!keys.is_empty() && keys.len() <= JOINED_KEYS_MAX).then_some(keys)
}

impl Reading {
    /// Answers all questions. A read may be made again, so one that met a connection that was lost while it lay idle is.
    async fn answer(
        &self,
        reads: &[&Read],
        session: Option<Session>,
    ) -> (Result<Vec<Answer>, StoreError>, Option<Session>) {
        let again = session.is_some();
        match self.try_answer(reads, session).await {
            (Err(error), None) if again && error.is_transient() => self.try_answer(reads, None).await,
            other => other,
        }
    }

    async fn try_answer(
        &self,
        reads: &[&Read],
        session: Option<Session>,
    ) -> (Result<Vec<Answer>, StoreError>, Option<Session>) {
        let mut session = match self.connector.ready(session, Purpose::Read).await {
            Ok(session) => session,
            Err(error) => return (Err(error), None),
        };
        let asking = async {
            match only_keys(reads.iter().copied()) {
                Some(keys) => self.look_up(&keys, &mut session).await,
                None => self.call(reads, &mut session).await,
            }
        };
        let outcome = self.connector.env.timeout(self.connector.settings.request_timeout, asking).await;
        let error = match outcome {
            Ok(Ok(answers)) => {
                session.seen = self.connector.env.now();
                return (answers, Some(session));
            }
            Ok(Err(error)) => store_error("read", error),
            Err(elapsed) => StoreError::unavailable(Reason::caused(format!("read: {elapsed}"), elapsed)),
        };
        self.connector.part(session).await;
        (Err(error), None)
    }

    /// Finds keys by one statement.
    async fn look_up(
        &self,
        keys: &[&Key],
        session: &mut Session,
    ) -> mysql_async::Result<Result<Vec<Answer>, StoreError>> {
        let at = KEY_COUNTS.iter().position(|count| keys.len() <= *count).unwrap_or(KEY_COUNTS.len() - 1);
        let mut names: Vec<Value> = keys.iter().map(|key| Value::Bytes(key.as_bytes().to_vec())).collect();
        if let Some(last) = names.last().cloned() {
            names.resize(KEY_COUNTS[at], last);
        }
        let rows: Vec<Row> = session.conn.exec(&self.statements.keys[at], Params::Positional(names)).await?;
        let mut found = HashMap::new();
        for row in rows {
            match columns(row) {
                Ok((name, version, value)) => {
                    found.insert(name, Versioned { value, version: Version(version) });
                }
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(keys.iter().map(|key| Answer::Key(found.get(key.as_bytes()).cloned())).collect()))
    }

    /// Asks the procedure, which answers each question with a set of rows.
    async fn call(
        &self,
        reads: &[&Read],
        session: &mut Session,
    ) -> mysql_async::Result<Result<Vec<Answer>, StoreError>> {
        let bytes = self.page_bytes;
        let questions = pack::questions(reads.iter().copied());
        let arguments = Params::Positional(vec![Value::Bytes(questions), Value::UInt(bytes as u64)]);
        let mut result = session.conn.exec_iter(&self.statements.read, arguments).await?;
        let mut answers = Vec::with_capacity(reads.len());
        for read in reads {
            let rows: Vec<Row> = result.collect().await?;
            answers.push(
                rows.into_iter()
                    .map(columns)
                    .collect::<Result<Vec<_>, _>>()
                    .map(|rows| shape(read, rows, bytes)),
            );
        }
        result.drop_result().await?;
        Ok(answers.into_iter().collect())
    }
}

/// The name, the number and the value in a row.
type Found = (Bytes, u64, Bytes);

fn columns(row: Row) -> Result<Found, StoreError> {
    let bytes = |value: Option<Value>| match value {
        Some(Value::Bytes(bytes)) => Some(Bytes::from(bytes)),
        _ => None,
    };
    let number = |value: Option<Value>| match value {
        Some(Value::UInt(number)) => Some(number),
        Some(Value::Int(number)) => u64::try_from(number).ok(),
        _ => None,
    };
    let mut values = row.unwrap_raw().into_iter();
    let found =
        (bytes(values.next().flatten()), number(values.next().flatten()), bytes(values.next().flatten()));
    match found {
        (Some(name), Some(number), Some(value)) => Ok((name, number, value)),
        _ => Err(StoreError::corrupt("a row has columns of other types than were made")),
    }
}

fn shape(read: &Read, rows: Vec<Found>, bytes: usize) -> Answer {
    let rows = rows.into_iter();
    match read {
        Read::Key(_) => {
            Answer::Key(rows.map(|(_, version, value)| Versioned { value, version: Version(version) }).next())
        }
        Read::Range { limit, .. } => {
            let item =
                |(name, version, value)| Item { key: Key::new(name), value, version: Version(version) };
            Answer::Range(gather(rows.map(item), *limit, bytes))
        }
        Read::List { limit, .. } => {
            let entry = |(id, _, value)| Entry { id: EntryId::new(id), value };
            Answer::List(gather(rows.map(entry), *limit, bytes))
        }
    }
}

fn gather<T: tenure_store::Weigh>(rows: impl Iterator<Item = T>, limit: usize, bytes: usize) -> Page<T> {
    match Page::gather(rows.map(Ok::<_, Infallible>), limit, bytes) {
        Ok(page) => page,
        Err(never) => match never {},
    }
}
