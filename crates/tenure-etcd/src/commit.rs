//! Commits as transactions of etcd.
//!
//! | contract | etcd |
//! | --- | --- |
//! | `Version(key, v)` | mod revision = v |
//! | `Absent(key)` | create revision = 0 |
//! | `Present(key)` | create revision > 0 |
//! | `Empty(list)` | create revision = 0, for every key in the range of the list |
//!
//! Behind the compares stand the writes, and as the alternative one look for each check, which tells the one that failed, as of the same
//! instant.
//!
//! Every transaction has a write, though it be the deletion of what is not there. For one without, etcd has two shorter ways: with
//! looks it does not pass through the log but asks the leader where the log ends, and without any it asks nobody, and answers from what this
//! member happens to know.

use bytes::Bytes;
use prost::Message as _;
use tenure_store::{Check, Commit, CommitError, Conflict, EntryId, Limits, Receipt, Version, Write};

use crate::{
    layout::{Layout, Span},
    messages::{
        Compare, CompareResult, CompareTarget, Compared, DeleteRangeRequest, Operation, PutRequest,
        RangeRequest, RequestOp, ResponseOp, TxnRequest, TxnResponse, revision,
    },
};

/// What a commit may be. A transaction of etcd has up to 128 compares, and as many operations of each kind, and 1.5 MiB in all. The largest
/// that these allow: 1 MiB of the caller's; and for each of 120 checks or writes less than 3.5 KiB more, which a check of an empty
/// list needs whose name is 1,024 zeros: twice that name with each zero doubled, and with the prefix.
pub(crate) const LIMITS: Limits = Limits::PORTABLE;

/// The largest request that is sent, less than etcd's 1.5 MiB by what it adds itself.
const REQUEST_BYTES: usize = 1_560_000;

/// A revision that no key has.
const NEVER: i64 = -1;

/// The transaction for a commit whose appended entries get these ids, in order.
pub(crate) fn to_txn(commit: &Commit, layout: &Layout, ids: impl IntoIterator<Item = EntryId>) -> TxnRequest {
    let compare = commit.checks.iter().map(|check| to_compare(check, layout)).collect();
    let (mut success, mut ids) = (Vec::with_capacity(commit.writes.len().max(1)), ids.into_iter());
    for write in &commit.writes {
        match write {
            Write::Set(key, value) => success.push(put(layout.key(key), value.clone())),
            Write::Append(list, value) => {
                let id = ids.next().expect("there are as many ids as entries");
                success.push(put(layout.entry(list, &id), value.clone()));
            }
            Write::Delete(key) => success.push(delete((layout.key(key), Bytes::new()))),
            Write::Remove(list, id) => success.push(delete((layout.entry(list, id), Bytes::new()))),
            Write::DeleteRange(range) => {
                success.extend([layout.keys(range), layout.lists(range)].into_iter().flatten().map(delete));
            }
        }
    }
    if success.is_empty() {
        success.push(delete((layout.never(), Bytes::new())));
    }
    let mut txn = TxnRequest { compare, success, failure: looks(&commit.checks, layout, 0) };
    if txn.encoded_len() > REQUEST_BYTES {
        txn.failure.clear();
    }
    txn
}

/// One look for each check, as of a revision, or as of the transaction itself if that is 0.
pub(crate) fn looks(checks: &[Check], layout: &Layout, revision: i64) -> Vec<RequestOp> {
    let look = |check: &Check| {
        let (key, range_end) = place(check, layout);
        Operation::Range(RangeRequest { key, range_end, limit: 1, revision, keys_only: true }).into()
    };
    checks.iter().map(look).collect()
}

/// What the answer to a transaction says; `None` if it was refused, and not asked why.
pub(crate) fn outcome(checks: &[Check], answer: &TxnResponse) -> Option<Result<Receipt, CommitError>> {
    if answer.succeeded {
        let version = Version(revision(answer.header.as_ref()).unsigned_abs());
        return Some(Ok(Receipt { version }));
    }
    (!answer.responses.is_empty()).then(|| Err(refusal(checks, &answer.responses).into()))
}

/// The first check that did not hold where these looks were taken.
pub(crate) fn refusal(checks: &[Check], looks: &[ResponseOp]) -> Conflict {
    let failed = checks.iter().zip(looks).position(|(check, look)| {
        let first = look.range.as_ref().and_then(|range| range.kvs.first());
        match (check, first) {
            (Check::Version(_, version), Some(found)) => found.mod_revision != to_revision(*version),
            (Check::Version(..) | Check::Present(_), None) => true,
            (Check::Absent(_) | Check::Empty(_), found) => found.is_some(),
            (Check::Present(_), Some(_)) => false,
        }
    });
    failed.map_or(Conflict::Contention, |index| Conflict::Check { index, key: checks[index].key().clone() })
}

fn to_compare(check: &Check, layout: &Layout) -> Compare {
    let (target, result, compared) = match check {
        Check::Version(_, version) => {
            (CompareTarget::Mod, CompareResult::Equal, Compared::ModRevision(to_revision(*version)))
        }
        Check::Absent(_) | Check::Empty(_) => {
            (CompareTarget::Create, CompareResult::Equal, Compared::CreateRevision(0))
        }
        Check::Present(_) => (CompareTarget::Create, CompareResult::Greater, Compared::CreateRevision(0)),
    };
    let (key, range_end) = place(check, layout);
    Compare { result: result.into(), target: target.into(), key, compared: Some(compared), range_end }
}

fn place(check: &Check, layout: &Layout) -> Span {
    match check {
        Check::Version(key, _) | Check::Absent(key) | Check::Present(key) => (layout.key(key), Bytes::new()),
        Check::Empty(list) => layout.list(list, None),
    }
}

/// A key that does not exist has revision 0 to etcd. No version is 0, so nothing may match it.
fn to_revision(version: Version) -> i64 {
    i64::try_from(version.0).ok().filter(|revision| *revision > 0).unwrap_or(NEVER)
}

fn put(key: Bytes, value: Bytes) -> RequestOp {
    Operation::Put(PutRequest { key, value }).into()
}

fn delete((key, range_end): Span) -> RequestOp {
    Operation::DeleteRange(DeleteRangeRequest { key, range_end }).into()
}

#[cfg(test)]
mod tests {
    use tenure_store::{Key, Range};

    use super::*;
    use crate::layout::entry_id;

    /// etcd's own limit, `--max-request-bytes`.
    const ETCD_BYTES: usize = 1536 * 1024;

    /// The longest prefix, and commits of each kind that are as large as the limits allow, with names that grow most.
    fn largest() -> (Layout, Vec<Commit>) {
        let name = |at: usize, length: usize| {
            let mut bytes = vec![0; length];
            bytes[..2]
                .copy_from_slice(&[1 + u8::try_from(at / 200).unwrap(), 1 + u8::try_from(at % 200).unwrap()]);
            Key::new(bytes)
        };
        let fill = |commit: Commit, operations: usize, bytes: usize| {
            let values = LIMITS.commit_operations - operations;
            let mut left = LIMITS.commit_bytes - bytes;
            (0..values).fold(commit, |all, at| {
                let key = name(300 + at, 2);
                let value = vec![7; (left / (values - at)).min(LIMITS.value_bytes) - 2];
                left -= value.len() + 2;
                all.set(key, value)
            })
        };
        let key = LIMITS.key_bytes;
        let empty = (0..116).fold(Commit::new(), |all, at| all.check(Check::Empty(name(at, key))));
        let ranges = (0..58).fold(Commit::new(), |all, at| {
            all.delete_range(Range::Between { start: name(at, key + 1), end: name(at, key + 1).join(&[]) })
        });
        let appends = (0..116).fold(Commit::new(), |all, at| all.append(name(at, key), "v"));
        let commits = vec![
            fill(empty, 116, 116 * key),
            fill(ranges, 116, 116 * (key + 1)),
            fill(appends, 116, 116 * (key + 1)),
        ];
        (Layout::new(&"p".repeat(128)), commits)
    }

    #[test]
    fn the_largest_commit_fits_a_request() {
        let (layout, commits) = largest();
        for commit in commits {
            LIMITS.admit_commit(&commit).unwrap();
            let txn = to_txn(&commit, &layout, (0..).map(|count| entry_id(i64::MAX, u64::MAX, count)));
            assert!(txn.encoded_len() <= REQUEST_BYTES, "{} bytes", txn.encoded_len());
            assert!(txn.success.len() <= 128 && txn.compare.len() <= 128);
        }
        const { assert!(REQUEST_BYTES < ETCD_BYTES) };
    }

    #[test]
    fn looks_are_left_out_where_they_do_not_fit() {
        let (layout, commits) = largest();
        assert!(to_txn(&commits[0], &layout, []).failure.is_empty());
        let small = Commit::new().check(Check::Empty("l".into()));
        assert_eq!(to_txn(&small, &layout, []).failure.len(), 1);
    }

    #[test]
    fn every_transaction_has_a_write() {
        let layout = Layout::new("p");
        let nothing = Range::Between { start: "b".into(), end: "a".into() };
        for commit in [
            Commit::new(),
            Commit::new().check(Check::Absent("k".into())),
            Commit::new().delete_range(nothing),
        ] {
            let writes = to_txn(&commit, &layout, []).success;
            assert!(
                matches!(writes[..], [RequestOp { request: Some(Operation::DeleteRange(_)) }]),
                "{writes:?}"
            );
        }
    }
}
