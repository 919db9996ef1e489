//! [`Readers`]: the connections that read.
//!
//! A reader takes all reads that wait and asks for them in one statement: one statement is one snapshot, and it is taken after
//! each of them was asked for. So many small reads cost few round trips.

use std::collections::HashMap;

use async_channel::{Receiver, Sender};
use bytes::Bytes;
use tenure_store::{
    Answer, Entry, EntryId, Item, Key, Limits, Page, Read, Snapshot, StoreError, Version, Versioned,
};
use tokio::sync::oneshot;
use tokio_postgres::{Row, types::Type};

use crate::{
    apply,
    committers::closed,
    connection::{Connector, Link},
};

/// Reads that wait for a connection. More wait for a place here.
const QUEUE_MAX: usize = 1024;

/// Questions that are asked in one statement, if they are of several reads.
const SHARED_MAX: usize = 64;

/// The connections that read.
#[derive(Debug)]
pub(crate) struct Readers {
    queue: Sender<Job>,
}

struct Job {
    reads: Vec<Read>,
    answer: oneshot::Sender<Result<Snapshot, StoreError>>,
}

struct Reader {
    connector: Connector,
    limits: Limits,
    /// For questions that are all for keys.
    keys_statement: String,
    /// For all questions.
    statement: String,
    jobs: Receiver<Job>,
    link: Option<Link>,
}

/// The parameters of a statement.
#[derive(Default)]
struct Questions<'a> {
    keys: Vec<&'a [u8]>,
    range_starts: Vec<&'a [u8]>,
    range_ends: Vec<Vec<u8>>,
    range_limits: Vec<i64>,
    lists: Vec<&'a [u8]>,
    list_afters: Vec<i64>,
    list_limits: Vec<i64>,
    page_bytes: i64,
}

/// What was found, by the place of the question among those of its kind.
#[derive(Default)]
struct Found {
    keys: HashMap<Bytes, Versioned>,
    ranges: HashMap<i64, Vec<Item>>,
    lists: HashMap<i64, Vec<Entry>>,
}

impl Readers {
    pub(crate) fn start(connector: &Connector, limits: Limits) -> Self {
        let (queue, jobs) = async_channel::bounded(QUEUE_MAX);
        let schema = &connector.settings().schema;
        for _ in 0..connector.settings().readers {
            let reader = Reader {
                connector: connector.clone(),
                limits,
                keys_statement: KEYS.replace("{schema}", schema),
                statement: QUESTIONS.replace("{schema}", schema),
                jobs: jobs.clone(),
                link: None,
            };
            tokio::spawn(reader.run());
        }
        Self { queue }
    }

    pub(crate) async fn read(&self, reads: Vec<Read>) -> Result<Snapshot, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.queue.send(Job { reads, answer }).await.map_err(|_| closed())?;
        answered
            .await
            .unwrap_or_else(|_| Err(StoreError::unavailable("the runtime of the store was shut down")))
    }

    /// Takes no more reads. Those in the queue are answered.
    pub(crate) fn stop(&self) {
        self.queue.close();
    }
}

impl Reader {
    async fn run(mut self) {
        while let Ok(job) = self.jobs.recv().await {
            let mut jobs = vec![job];
            let mut questions = jobs[0].reads.len();
            while questions < SHARED_MAX
                && let Ok(job) = self.jobs.try_recv()
            {
                questions += job.reads.len();
                jobs.push(job);
            }
            // Nobody may be waiting any more.
            jobs.retain(|job| !job.answer.is_closed());
            self.answer(jobs).await;
        }
    }

    async fn answer(&mut self, jobs: Vec<Job>) {
        let reads: Vec<&Read> = jobs.iter().flat_map(|job| &job.reads).collect();
        let found = self.find(&reads).await;
        let (mut range, mut list) = (0, 0);
        match found {
            Ok(mut found) => {
                for Job { reads, answer } in jobs {
                    let answers = reads
                        .iter()
                        .map(|read| found.take(read, &mut range, &mut list, self.limits.page_bytes));
                    let _ = answer.send(Ok(Snapshot::new(answers.collect())));
                }
            }
            Err(error) => jobs.into_iter().for_each(|job| drop(job.answer.send(Err(error.clone())))),
        }
    }

    async fn find(&mut self, reads: &[&Read]) -> Result<Found, StoreError> {
        if reads.is_empty() {
            return Ok(Found::default());
        }
        let questions = Questions::new(reads, self.limits);
        let link = match self.link.take() {
            Some(link) if !link.is_lost() => link,
            _ => self.connector.connect().await?,
        };
        let link = self.link.insert(link);
        if questions.are_for_keys() {
            let parameters = [(&questions.keys as _, Type::BYTEA_ARRAY)];
            let rows = self.connector.query("read", link, &self.keys_statement, &parameters).await?;
            let keys = rows.iter().map(|row| (bytes(row, 0), versioned(row, 1, 2))).collect();
            return Ok(Found { keys, ..Found::default() });
        }
        let rows = self.connector.query("read", link, &self.statement, &questions.parameters()).await?;
        Ok(Found::new(&rows))
    }
}

/// The values of these keys.
const KEYS: &str = "SELECT key, value, version FROM {schema}.kv WHERE key = ANY ($1)";

/// The answers to all questions: kind and place of the question, name of the key, its version or the id of the entry, the value. A page is cut
/// behind the first item that no longer fits, which shows that there is more.
const QUESTIONS: &str = "\
SELECT 0::int2, 0::int8, k.key, k.version, k.value FROM {schema}.kv k WHERE k.key = ANY ($1)
UNION ALL
SELECT 1::int2, q.n, p.key, p.version, p.value
FROM unnest($2::bytea[], $3::bytea[], $4::int8[]) WITH ORDINALITY AS q (first, last, most, n)
CROSS JOIN LATERAL (
    SELECT r.key, r.version, r.value,
        sum(octet_length(r.key) + octet_length(r.value)) OVER (ORDER BY r.key ROWS UNBOUNDED PRECEDING)
            - octet_length(r.key) - octet_length(r.value) AS before
    FROM (
        SELECT k.key, k.version, k.value FROM {schema}.kv k
        WHERE k.key >= q.first AND k.key < q.last ORDER BY k.key LIMIT q.most
    ) r
) p
WHERE p.before <= $8
UNION ALL
SELECT 2::int2, q.n, NULL, p.id, p.value
FROM unnest($5::bytea[], $6::int8[], $7::int8[]) WITH ORDINALITY AS q (list, after, most, n)
CROSS JOIN LATERAL (
    SELECT r.id, r.value,
        sum(octet_length(r.value)) OVER (ORDER BY r.id ROWS UNBOUNDED PRECEDING) - octet_length(r.value) AS before
    FROM (
        SELECT e.id, e.value FROM {schema}.entries e
        WHERE e.list = q.list AND e.id > q.after ORDER BY e.id LIMIT q.most
    ) r
) p
WHERE p.before <= $8";

impl<'a> Questions<'a> {
    fn new(reads: &[&'a Read], limits: Limits) -> Self {
        let page_bytes = i64::try_from(limits.page_bytes).unwrap_or(i64::MAX);
        let mut questions = Self { page_bytes, ..Self::default() };
        for read in reads {
            match read {
                Read::Key(key) => questions.keys.push(key.as_bytes()),
                Read::Range { range, limit } => {
                    questions.range_starts.push(range.start().as_bytes());
                    questions.range_ends.push(apply::end(range));
                    questions.range_limits.push(one_more(*limit));
                }
                Read::List { list, after, limit } => {
                    questions.lists.push(list.as_bytes());
                    // Every id is above -1, and none is above a number that the sequence can't give.
                    let after = after.as_ref().and_then(EntryId::number);
                    let after = after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX));
                    questions.list_afters.push(after);
                    questions.list_limits.push(one_more(*limit));
                }
            }
        }
        questions
    }

    fn are_for_keys(&self) -> bool {
        self.range_starts.is_empty() && self.lists.is_empty()
    }

    fn parameters(&self) -> [crate::connection::Parameter<'_>; 8] {
        [
            (&self.keys, Type::BYTEA_ARRAY),
            (&self.range_starts, Type::BYTEA_ARRAY),
            (&self.range_ends, Type::BYTEA_ARRAY),
            (&self.range_limits, Type::INT8_ARRAY),
            (&self.lists, Type::BYTEA_ARRAY),
            (&self.list_afters, Type::INT8_ARRAY),
            (&self.list_limits, Type::INT8_ARRAY),
            (&self.page_bytes, Type::INT8),
        ]
    }
}

impl Found {
    fn new(rows: &[Row]) -> Self {
        let mut found = Self::default();
        for row in rows {
            let place: i64 = row.get(1);
            match row.get::<_, i16>(0) {
                0 => {
                    found.keys.insert(bytes(row, 2), versioned(row, 4, 3));
                }
                1 => {
                    let Versioned { value, version } = versioned(row, 4, 3);
                    let item = Item { key: Key::new(bytes(row, 2)), value, version };
                    found.ranges.entry(place).or_default().push(item);
                }
                _ => {
                    let id = EntryId::numbered(row.get::<_, i64>(3).cast_unsigned());
                    found.lists.entry(place).or_default().push(Entry { id, value: bytes(row, 4) });
                }
            }
        }
        // Rows come in order as a rule, but nothing promises it.
        found.ranges.values_mut().for_each(|items| items.sort_by(|one, other| one.key.cmp(&other.key)));
        found.lists.values_mut().for_each(|entries| entries.sort_by(|one, other| one.id.cmp(&other.id)));
        found
    }

    /// The answer to the next question. `range` and `list` count those of their kind.
    fn take(&mut self, read: &Read, range: &mut i64, list: &mut i64, page_bytes: usize) -> Answer {
        match read {
            Read::Key(key) => Answer::Key(self.keys.get(key.as_bytes()).cloned()),
            Read::Range { limit, .. } => {
                *range += 1;
                Answer::Range(page(self.ranges.remove(range), *limit, page_bytes))
            }
            Read::List { limit, .. } => {
                *list += 1;
                Answer::List(page(self.lists.remove(list), *limit, page_bytes))
            }
        }
    }
}

fn page<T: tenure_store::Weigh>(found: Option<Vec<T>>, limit: usize, bytes: usize) -> Page<T> {
    let found = found.unwrap_or_default().into_iter().map(Ok::<T, std::convert::Infallible>);
    match Page::gather(found, limit, bytes) {
        Ok(page) => page,
        Err(never) => match never {},
    }
}

/// One more than asked for, to see whether there is more.
fn one_more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

fn bytes(row: &Row, column: usize) -> Bytes {
    Bytes::copy_from_slice(row.get(column))
}

fn versioned(row: &Row, value: usize, version: usize) -> Versioned {
    let version = Version(row.get::<_, i64>(version).cast_unsigned());
    Versioned { value: bytes(row, value), version }
}
