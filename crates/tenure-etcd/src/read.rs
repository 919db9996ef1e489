//! Reads: all questions in one transaction, which is one instant and, in most cases, one request.
//!
//! etcd bounds an answer by the number of items and not by their bytes. So a first transaction asks for no more items than are harmless
//! though each be as large as may be; what is missing for a full page is asked for as of the same revision.

use tenure_store::{Answer, Entry, Item, Key, Page, Read, Snapshot, StoreError, Version, Versioned, Weigh};

use crate::{
    cluster::Cluster,
    commit::LIMITS,
    error::{Failure, Meaning},
    layout::{Layout, Span, is_entry_id},
    members::Repeat,
    messages::{KeyValue, Operation, RangeRequest, RangeResponse, TxnRequest, revision},
};

/// How many items the pages of a first transaction may have together: 32 MiB if each is as large as may be, and a page of small ones is
/// mostly shorter.
const FIRST_ITEMS: usize = 128;

/// How many times as many items each further transaction may ask for. What came so far tells how large they are.
const GROWTH: usize = 4;

/// How often a read starts anew because what it was reading was compacted away. A compaction is rare and a read is short.
const STARTS_MAX: usize = 3;

/// Refuses questions that this store can't answer.
pub(crate) fn admit_ids(reads: &[Read]) -> Result<(), StoreError> {
    for read in reads {
        if let Read::List { list, after: Some(id), .. } = read
            && !is_entry_id(id)
        {
            return Err(StoreError::invalid(format!(
                "{id:?} is no entry of list {list}: read on from an id that this store gave"
            )));
        }
    }
    Ok(())
}

/// Answers all questions as of one instant.
pub(crate) async fn read(
    cluster: &Cluster,
    layout: &Layout,
    reads: Vec<Read>,
) -> Result<Snapshot, StoreError> {
    if reads.is_empty() {
        return Ok(Snapshot::new(Vec::new()));
    }
    let mut starts = 1;
    loop {
        match read_once(cluster, layout, &reads).await {
            Err(failure) if failure.meaning == Meaning::Compacted && starts < STARTS_MAX => starts += 1,
            Err(failure) => return Err(failure.into()),
            Ok(questions) => {
                let answers = questions.into_iter().map(|question| question.answer(layout));
                return answers.collect::<Result<_, _>>().map(Snapshot::new);
            }
        }
    }
}

async fn read_once<'a>(
    cluster: &Cluster,
    layout: &Layout,
    reads: &'a [Read],
) -> Result<Vec<Question<'a>>, Failure> {
    let mut questions: Vec<Question<'a>> = reads.iter().map(|read| Question::new(read, layout)).collect();
    let pages = reads.iter().filter(|read| !matches!(read, Read::Key(_))).count();
    let mut share = FIRST_ITEMS / pages.max(1);
    let mut instant = 0;
    loop {
        let mut open: Vec<&mut Question<'a>> =
            questions.iter_mut().filter(|question| question.rest.is_some()).collect();
        if open.is_empty() {
            return Ok(questions);
        }
        let success = open.iter().filter_map(|question| question.ask(share, instant));
        let txn = TxnRequest { success: success.map(Into::into).collect(), ..TxnRequest::default() };
        let answer = cluster.ask("read", &txn, Repeat::Safe).await?;
        if instant == 0 {
            instant = revision(answer.header.as_ref());
        }
        for (question, found) in open.iter_mut().zip(answer.responses) {
            question.take(found.range.unwrap_or_default());
        }
        share = share.saturating_mul(GROWTH);
    }
}

/// A question, and what is known of its answer.
struct Question<'a> {
    read: &'a Read,
    /// What was not looked at yet and is needed.
    rest: Option<Span>,
    found: Vec<KeyValue>,
    /// How many bytes were found.
    held: usize,
}

impl<'a> Question<'a> {
    fn new(read: &'a Read, layout: &Layout) -> Self {
        let rest = match read {
            Read::Key(key) => Some((layout.key(key), bytes::Bytes::new())),
            Read::Range { range, .. } => layout.keys(range),
            Read::List { list, after, .. } => Some(layout.list(list, after.as_ref())),
        };
        Self { read, rest, found: Vec::new(), held: 0 }
    }

    /// At most how many items the answer has.
    fn limit(&self) -> usize {
        match self.read {
            Read::Key(_) => 1,
            Read::Range { limit, .. } | Read::List { limit, .. } => *limit,
        }
    }

    /// Asks for as many items as are missing, and one more to see whether there is one; but not for more than `share`, and not for many
    /// more than the page has room for, if they are as large as those before.
    fn ask(&self, share: usize, revision: i64) -> Option<Operation> {
        let (key, range_end) = self.rest.clone()?;
        let missing = (self.limit() + 1).saturating_sub(self.found.len());
        let average = (self.held / self.found.len().max(1)).max(1);
        let room = LIMITS.page_bytes.saturating_sub(self.held) / average + 1;
        let limit = i64::try_from(missing.min(share).min(room).max(1)).unwrap_or(i64::MAX);
        Some(Operation::Range(RangeRequest { key, range_end, limit, revision, keys_only: false }))
    }

    fn take(&mut self, found: RangeResponse) {
        self.held += found.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum::<usize>();
        self.found.extend(found.kvs);
        // An item at least comes in any case, and one more shows that there is more.
        let full = self.found.len() > self.limit() || self.held > LIMITS.page_bytes && self.found.len() > 1;
        self.rest = match (self.rest.take(), self.found.last()) {
            (Some((_, end)), Some(last)) if found.more && !full => {
                Some(([&last.key[..], &[0]].concat().into(), end))
            }
            _ => None,
        };
    }

    fn answer(self, layout: &Layout) -> Result<Answer, StoreError> {
        let limit = self.limit();
        match self.read {
            Read::Key(_) => {
                let found = self.found.into_iter().next();
                Ok(Answer::Key(found.map(|kv| Versioned { version: version(&kv), value: kv.value })))
            }
            Read::Range { .. } => page(self.found, limit, |kv| to_item(kv, layout)).map(Answer::Range),
            Read::List { list, .. } => {
                page(self.found, limit, |kv| to_entry(kv, list, layout)).map(Answer::List)
            }
        }
    }
}

fn page<T: Weigh>(
    found: Vec<KeyValue>,
    limit: usize,
    to: impl FnMut(KeyValue) -> Result<T, StoreError>,
) -> Result<Page<T>, StoreError> {
    Page::gather(found.into_iter().map(to), limit, LIMITS.page_bytes)
}

fn to_item(kv: KeyValue, layout: &Layout) -> Result<Item, StoreError> {
    let key = layout.to_key(&kv.key).ok_or_else(|| foreign(&kv))?;
    Ok(Item { key, version: version(&kv), value: kv.value })
}

fn to_entry(kv: KeyValue, list: &Key, layout: &Layout) -> Result<Entry, StoreError> {
    match layout.to_entry(&kv.key) {
        Some((owner, id)) if owner == *list => Ok(Entry { id, value: kv.value }),
        _ => Err(foreign(&kv)),
    }
}

fn foreign(kv: &KeyValue) -> StoreError {
    let key = Key::new(kv.key.clone());
    StoreError::corrupt(format!(
        "the etcd key {key} is under the prefix of this store, but not of its making: delete it"
    ))
}

fn version(kv: &KeyValue) -> Version {
    Version(kv.mod_revision.unsigned_abs())
}
