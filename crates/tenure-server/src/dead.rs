//! [`DeadLetter`]: a message that failed too often.

use std::time::Duration;

use bytes::Bytes;
use tenure_store::{
    Check, Commit, CommitError, Item, Key, Range, Read, Store, StoreError, StoreExt as _,
    record::{Decoder, Encoder},
};

use crate::{
    Attempt, Failure, Json, ServerError,
    courier::append,
    desk,
    keys::{self, ServerKeys},
    parcel::{Bundle, Parcel, Sort, millis, unpack},
};

const FORMAT: u8 = 1;

/// A message that failed as often as it might.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// Tells it from the other dead letters of its server.
    pub number: u64,
    /// Whether it was a call.
    pub is_call: bool,
    /// What it said, as `MessagePack`.
    pub body: Bytes,
    /// When it was sent, by the wall clock of its sender, since 1970.
    pub sent: Duration,
    /// When it became a dead letter, since 1970.
    pub died: Duration,
    /// How it failed, each time.
    pub attempts: Vec<Attempt>,
}

impl DeadLetter {
    /// What it said.
    ///
    /// # Errors
    /// When that can't be read.
    pub fn json(&self) -> Result<Json, Failure> {
        unpack(&self.body)
    }
}

/// When, until when it is kept, and the message as an entry of a queue.
pub(crate) fn record(now_ms: u64, until_ms: u64, entry: &Bytes) -> Bytes {
    Encoder::new(FORMAT).number(now_ms).number(until_ms).bytes(entry).finish()
}

/// What is kept of a dead letter.
pub(crate) struct Kept {
    pub(crate) died_ms: u64,
    pub(crate) until_ms: u64,
    pub(crate) bundle: Bundle,
}

pub(crate) fn read(key: &Key, value: &[u8]) -> Result<Kept, StoreError> {
    let (died_ms, until_ms, entry) = Decoder::all(key, value, FORMAT, |from| {
        Ok((from.number()?, from.number()?, Bytes::copy_from_slice(from.bytes()?)))
    })?;
    Ok(Kept { died_ms, until_ms, bundle: Bundle::decode(key, &entry)? })
}

impl Kept {
    /// Where its pieces are, if it has any.
    pub(crate) fn pieces(&self) -> Option<(u64, u64)> {
        match self.bundle {
            Bundle::Here(_) => None,
            Bundle::InPieces { bundle, count } => Some((bundle, count)),
        }
    }

    async fn parcel(&self, store: &dyn Store, keys: &ServerKeys, key: &Key) -> Result<Parcel, StoreError> {
        let bundle = match self.bundle.clone() {
            Bundle::InPieces { bundle, .. } => {
                let whole = desk::pieces(store, &keys.pieces(bundle)).await?;
                let whole = whole
                    .ok_or_else(|| StoreError::corrupt(format!("pieces of dead letter {key} are missing")))?;
                Bundle::decode(key, &whole)?
            }
            here => here,
        };
        match bundle {
            Bundle::Here(mut parcels) if parcels.len() == 1 => parcels.pop(),
            _ => None,
        }
        .ok_or_else(|| StoreError::corrupt(format!("dead letter {key} is not one message")))
    }
}

/// The dead letters of one server.
#[derive(Debug)]
pub(crate) struct DeadLetters<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) keys: &'a ServerKeys,
}

impl DeadLetters<'_> {
    /// Those behind `after`, in the order in which they died.
    pub(crate) async fn list(
        &self,
        after: Option<u64>,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, ServerError> {
        let all = self.keys.deads();
        let range = after.map_or_else(|| all.clone(), |after| all.after(&self.keys.dead(after)));
        let page = self.store.scan(&range, limit.clamp(1, self.store.limits().page_items)).await?;
        let mut letters = Vec::with_capacity(page.items.len());
        for item in &page.items {
            letters.push(self.letter(item).await?);
        }
        Ok(letters)
    }

    async fn letter(&self, item: &Item) -> Result<DeadLetter, StoreError> {
        let kept = read(&item.key, &item.value)?;
        let parcel = kept.parcel(self.store, self.keys, &item.key).await?;
        Ok(DeadLetter {
            number: keys::dead_of(&item.key)?,
            is_call: parcel.sort == Sort::Call,
            body: parcel.body,
            sent: Duration::from_millis(parcel.sent_ms),
            died: Duration::from_millis(kept.died_ms),
            attempts: parcel.attempts,
        })
    }

    /// Takes a dead letter away, and puts it back into the queue if it is to be replayed. Returns whether it was there.
    pub(crate) async fn take(
        &self,
        number: u64,
        replay: bool,
        now: Duration,
        dice: u64,
    ) -> Result<bool, ServerError> {
        let (key, limits) = (self.keys.dead(number), self.store.limits());
        let Some(found) = self.store.get(&key).await? else { return Ok(false) };
        let kept = read(&key, &found.value)?;
        let mut commit = Commit::new().check(Check::Version(key.clone(), found.version)).delete(key.clone());
        commit = desk::delete_pieces(commit, self.keys, kept.pieces());
        if replay {
            let mut parcel = kept.parcel(self.store, self.keys, &key).await?;
            // Nobody waits for it any more.
            (parcel.attempts, parcel.to) = (Vec::new(), None);
            commit = append(commit, self.keys, &self.keys.queue, &[parcel], dice, &limits);
            commit = commit.set(self.keys.work.clone(), Bytes::copy_from_slice(&millis(now).to_be_bytes()));
        }
        match self.store.commit(commit).await {
            Ok(_) => Ok(true),
            Err(CommitError::Conflict(_)) => Ok(false),
            Err(CommitError::OutcomeUnknown(reason)) => Err(ServerError::OutcomeUnknown(reason)),
            Err(CommitError::Failed(error)) => Err(error.into()),
            Err(other) => Err(StoreError::unavailable(other.to_string()).into()),
        }
    }
}

/// All keys in a range, page by page.
pub(crate) async fn scan(store: &dyn Store, range: &Range) -> Result<Vec<Item>, StoreError> {
    let (mut range, mut found) = (range.clone(), Vec::new());
    loop {
        let answer =
            store.read(vec![Read::Range { range: range.clone(), limit: store.limits().page_items }]).await?;
        let page = answer.range(0);
        found.extend(page.items.iter().cloned());
        match page.items.last() {
            Some(last) if page.more => range = range.after(&last.key),
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::courier::entry;

    #[test]
    fn a_letter_keeps_its_times() {
        let key = Key::from("k");
        let (_, empty) = entry(
            Commit::new(),
            &ServerKeys::new(
                &tenure_cluster::Keys::new(&"c".parse().unwrap()),
                &"k".parse().unwrap(),
                &"i".parse().unwrap(),
            ),
            &[],
            1,
            &tenure_store::Limits::PORTABLE,
        );
        let kept = read(&key, &record(5, 9, &empty)).unwrap();
        assert_eq!((kept.died_ms, kept.until_ms, kept.pieces()), (5, 9, None));
    }
}
