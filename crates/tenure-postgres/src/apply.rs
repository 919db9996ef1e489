//! [`Batch`]: commits as calls of the function `apply`, in one statement.
//!
//! # Locks
//! A commit takes an advisory lock, until the end of its transaction, on everything it speaks of. Each key and list has a few, so that
//! only those meet who must:
//!
//! | lock | shared | exclusive |
//! | --- | --- | --- |
//! | the gate | every commit | one that deletes a range |
//! | what a key holds | `Version`, `Absent` | `Set`, `Delete` |
//! | whether a key exists | `Present` | `Delete` |
//! | whether a list has entries | `Append` | `Empty` |
//! | the taking from a list | | `Remove` |
//!
//! `Set` does not lock whether the key exists, so `Present` never meets an overwrite. Appends do not meet each other.
//!
//! All take the gate first and the others in the order of their numbers, each once, in the mode it needs most: no two can wait for each
//! other. A lock is a number, a hash of what it locks; if two things share one, their commits wait for each other for nothing.
//!
//! Row locks would do less: they can't lock what is not there, and write to the row for every check.
//!
//! # Batches
//! Commits that wait at the same time share a statement, hence a transaction and its flush. Each has its own checks and its own answer; a
//! conflict of one is not a conflict of another. The first call takes the locks of all, so that batches can't wait for each other in a circle
//! either.

use std::collections::BTreeMap;

use tenure_store::{Check, Commit, Range, Write};
use tokio_postgres::types::Type;

use crate::connection::Parameter;

/// With more locks than this a commit takes the gate alone, for itself: the server has room for some thousands in all.
const LOCKS_MAX: usize = 256;

/// Commits of one statement.
const BATCH_MAX: usize = 32;

/// Checks and writes of a commit that shares a statement: at most two locks each, so that those of a whole batch rarely become too many.
const SHARING_MAX: usize = 16;

/// Bytes of values of such a commit, so that a statement stays short.
const SHARING_BYTES_MAX: usize = 64 * 1024;

/// Commits, made by one statement.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    process: i64,
    locks: Vec<i64>,
    calls: Vec<Call<'a>>,
}

/// The arguments of the function `apply` for one commit. What there is none of is not there at all: an array costs the server something, be
/// it empty.
#[derive(Debug, Default)]
struct Call<'a> {
    check_names: Many<&'a [u8]>,
    check_wants: Many<i64>,
    set_keys: Many<&'a [u8]>,
    set_values: Many<&'a [u8]>,
    delete_keys: Many<&'a [u8]>,
    range_starts: Many<&'a [u8]>,
    range_ends: Many<Vec<u8>>,
    append_lists: Many<&'a [u8]>,
    append_values: Many<&'a [u8]>,
    remove_lists: Many<&'a [u8]>,
    remove_ids: Many<i64>,
}

/// How many fields a [`Call`] has.
const FIELDS: usize = 11;

type Many<T> = Option<Vec<T>>;

fn push<T>(many: &mut Many<T>, one: T) {
    many.get_or_insert_default().push(one);
}

/// What is wanted of a key or list whose version does not matter.
const ABSENT: i64 = -1;
const PRESENT: i64 = -2;
const EMPTY: i64 = -3;

/// A version that no key has: the sequence gives none beyond 2^63.
const NEVER: i64 = -4;

impl<'a> Batch<'a> {
    /// Whether a commit may be in a batch with others: a small one that does not keep everybody else waiting.
    pub(crate) fn may_share(commit: &Commit) -> bool {
        let bytes = commit.writes.iter().map(|write| match write {
            Write::Set(_, value) | Write::Append(_, value) => value.len(),
            Write::Delete(_) | Write::Remove(..) => 0,
            // Meets everything, and so nobody.
            Write::DeleteRange(_) => SHARING_BYTES_MAX + 1,
        });
        commit.checks.len() + commit.writes.len() <= SHARING_MAX && bytes.sum::<usize>() <= SHARING_BYTES_MAX
    }

    /// How many of `waiting` commits a connection should take along, if there are so many `connections`: its share, so that the others
    /// have something to do as well.
    pub(crate) fn share(waiting: usize, connections: usize) -> usize {
        waiting.div_ceil(connections).min(BATCH_MAX - 1)
    }

    /// The calls for these commits, made by this process.
    pub(crate) fn new(schema: &str, process: i64, commits: impl IntoIterator<Item = &'a Commit>) -> Self {
        let mut locks = Locks { schema, ids: BTreeMap::new(), gate_exclusive: false };
        let calls = commits.into_iter().map(|commit| Call::new(commit, &mut locks)).collect();
        Self { process, locks: locks.finish(), calls }
    }

    /// The statement: its rows are the place of the commit, its outcome and whether others want to know of it.
    pub(crate) fn statement(&self, schema: &str) -> String {
        let call = |place: usize| {
            let locks = if place == 0 { "$2" } else { "NULL" };
            let fields: Vec<String> =
                (3..3 + FIELDS).map(|field| format!("${}", field + place * FIELDS)).collect();
            let fields = fields.join(", ");
            format!("SELECT {place}::int4, a.outcome, a.heard FROM {schema}.apply($1, {locks}, {fields}) a")
        };
        // Branches are carried out one after another.
        (0..self.calls.len()).map(call).collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// The arguments, in order.
    pub(crate) fn parameters(&self) -> Vec<Parameter<'_>> {
        let mut parameters: Vec<Parameter<'_>> = Vec::with_capacity(2 + FIELDS * self.calls.len());
        parameters.push((&self.process, Type::INT8));
        parameters.push((&self.locks, Type::INT8_ARRAY));
        for call in &self.calls {
            parameters.extend(call.parameters());
        }
        parameters
    }
}

impl<'a> Call<'a> {
    fn new(commit: &'a Commit, locks: &mut Locks<'_>) -> Self {
        let mut call = Self::default();
        for check in &commit.checks {
            call.check(check, locks);
        }
        for write in &commit.writes {
            call.write(write, locks);
        }
        call
    }

    fn check(&mut self, check: &'a Check, locks: &mut Locks<'_>) {
        let name = check.key().as_bytes();
        let wants = match check {
            Check::Version(_, version) => {
                locks.shared(b'w', name);
                i64::try_from(version.0).unwrap_or(NEVER)
            }
            Check::Absent(_) => {
                locks.shared(b'w', name);
                ABSENT
            }
            Check::Present(_) => {
                locks.shared(b'x', name);
                PRESENT
            }
            Check::Empty(_) => {
                locks.exclusive(b'l', name);
                EMPTY
            }
        };
        push(&mut self.check_names, name);
        push(&mut self.check_wants, wants);
    }

    fn write(&mut self, write: &'a Write, locks: &mut Locks<'_>) {
        match write {
            Write::Set(key, value) => {
                locks.exclusive(b'w', key.as_bytes());
                push(&mut self.set_keys, key.as_bytes());
                push(&mut self.set_values, value.as_ref());
            }
            Write::Delete(key) => {
                locks.exclusive(b'w', key.as_bytes());
                locks.exclusive(b'x', key.as_bytes());
                push(&mut self.delete_keys, key.as_bytes());
            }
            Write::DeleteRange(range) => {
                locks.gate_exclusive = true;
                push(&mut self.range_starts, range.start().as_bytes());
                push(&mut self.range_ends, end(range));
            }
            Write::Append(list, value) => {
                locks.shared(b'l', list.as_bytes());
                push(&mut self.append_lists, list.as_bytes());
                push(&mut self.append_values, value.as_ref());
            }
            Write::Remove(list, id) => {
                // Another id was never given by this store, so no such entry is there.
                if let Some(id) = id.number().and_then(|id| i64::try_from(id).ok()) {
                    locks.exclusive(b'r', list.as_bytes());
                    push(&mut self.remove_lists, list.as_bytes());
                    push(&mut self.remove_ids, id);
                }
            }
        }
    }

    fn parameters(&self) -> [Parameter<'_>; FIELDS] {
        [
            (&self.check_names, Type::BYTEA_ARRAY),
            (&self.check_wants, Type::INT8_ARRAY),
            (&self.set_keys, Type::BYTEA_ARRAY),
            (&self.set_values, Type::BYTEA_ARRAY),
            (&self.delete_keys, Type::BYTEA_ARRAY),
            (&self.range_starts, Type::BYTEA_ARRAY),
            (&self.range_ends, Type::BYTEA_ARRAY),
            (&self.append_lists, Type::BYTEA_ARRAY),
            (&self.append_values, Type::BYTEA_ARRAY),
            (&self.remove_lists, Type::BYTEA_ARRAY),
            (&self.remove_ids, Type::INT8_ARRAY),
        ]
    }
}

/// The locks of a batch.
struct Locks<'a> {
    schema: &'a str,
    /// Which, in order, and whether exclusive.
    ids: BTreeMap<i64, bool>,
    gate_exclusive: bool,
}

impl Locks<'_> {
    fn shared(&mut self, kind: u8, name: &[u8]) {
        self.ids.entry(lock_id(self.schema, kind, name)).or_insert(false);
    }

    fn exclusive(&mut self, kind: u8, name: &[u8]) {
        self.ids.insert(lock_id(self.schema, kind, name), true);
    }

    /// The gate, then the others, as the function wants them; whoever has the gate for itself needs none.
    fn finish(self) -> Vec<i64> {
        let number = |id: i64, exclusive: bool| (id << 1) | i64::from(exclusive);
        let gate = lock_id(self.schema, b'g', b"");
        if self.gate_exclusive || self.ids.len() > LOCKS_MAX {
            return vec![number(gate, true)];
        }
        // A lock that shares the gate's number is the gate, taken already; nobody would wait for anybody else.
        let others = self.ids.into_iter().filter(|(id, _)| *id != gate);
        std::iter::once(number(gate, false))
            .chain(others.map(|(id, exclusive)| number(id, exclusive)))
            .collect()
    }
}

/// The number of a lock. All processes, of all releases, must agree on it.
pub(crate) fn lock_id(schema: &str, kind: u8, name: &[u8]) -> i64 {
    // FNV-1a, then a finalizer that spreads its last byte over all bits.
    let bytes = schema.bytes().chain([0, kind]).chain(name.iter().copied());
    let mut hash = bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    // Of 62 bits: one is the sign, and one says in what mode it is taken.
    ((hash ^ (hash >> 33)) >> 2).cast_signed()
}

/// The end of a range as a bound: a range without one ends behind the greatest key there can be.
pub(crate) fn end(range: &Range) -> Vec<u8> {
    match range.end() {
        Some(end) => end.as_bytes().to_vec(),
        None => vec![0xff; tenure_store::Limits::KEY_BYTES_MAX + 1],
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::{Key, Version};

    use super::*;

    fn locks(commit: &Commit) -> Vec<(i64, bool)> {
        let batch = Batch::new("s", 1, [commit]);
        batch.locks.into_iter().map(|lock| (lock >> 1, lock & 1 == 1)).collect()
    }

    fn id(kind: u8, name: &str) -> i64 {
        lock_id("s", kind, name.as_bytes())
    }

    #[test]
    fn the_gate_comes_first_and_the_others_in_order_once() {
        let key = Key::from("k");
        let commit = Commit::new()
            .check(Check::Version(key.clone(), Version(1)))
            .check(Check::Present(Key::from("p")))
            .check(Check::Empty(Key::from("l")))
            .set(key, "v")
            .append(Key::from("l"), "e")
            .delete(Key::from("d"));
        let locks = locks(&commit);
        assert_eq!(locks[0], (id(b'g', ""), false));
        assert!(locks[1..].is_sorted_by(|one, next| one.0 < next.0));
        let mut expected = vec![
            (id(b'w', "k"), true),
            (id(b'x', "p"), false),
            (id(b'l', "l"), true),
            (id(b'w', "d"), true),
            (id(b'x', "d"), true),
        ];
        expected.sort_unstable();
        assert_eq!(locks[1..], expected);
    }

    #[test]
    fn a_deleted_range_and_too_many_locks_take_the_gate_alone() {
        let gate = [(id(b'g', ""), true)];
        assert_eq!(locks(&Commit::new().set(Key::from("a"), "").delete_range(Range::all())), gate);
        let many = (0..=LOCKS_MAX)
            .fold(Commit::new(), |commit, n| commit.set(Key::from(format!("{n}").as_str()), ""));
        assert_eq!(locks(&many), gate);
    }

    #[test]
    fn a_batch_takes_the_locks_of_all_first() {
        let (one, two) = (Commit::new().set("a".into(), "1"), Commit::new().check(Check::Absent("a".into())));
        let batch = Batch::new("s", 1, [&one, &two]);
        assert_eq!(batch.locks.len(), 2, "the gate, and one for both");
        let statement = batch.statement("s");
        assert!(statement.starts_with("SELECT 0::int4, a.outcome, a.heard FROM s.apply($1, $2, $3, $4,"));
        assert!(
            statement.contains("UNION ALL SELECT 1::int4, a.outcome, a.heard FROM s.apply($1, NULL, $14,")
        );
        assert_eq!(batch.parameters().len(), 2 + 2 * FIELDS);
    }

    #[test]
    fn a_connection_takes_its_share() {
        assert_eq!(
            [0, 1, 8, 9, 24, 1000].map(|waiting| Batch::share(waiting, 8)),
            [0, 1, 1, 2, 3, BATCH_MAX - 1]
        );
        assert!(Batch::may_share(&Commit::new().set("k".into(), "v")));
        assert!(!Batch::may_share(&Commit::new().delete_range(Range::all())));
        let large = (0..=SHARING_MAX).fold(Commit::new(), |all, _| all.append("l".into(), "e"));
        assert!(!Batch::may_share(&large));
        assert!(!Batch::may_share(&Commit::new().set("k".into(), vec![0; SHARING_BYTES_MAX + 1])));
    }

    /// A change of these numbers would let two releases commit past each other.
    #[test]
    fn lock_numbers_never_change() {
        assert_eq!(lock_id("tenure", b'w', b"key"), LOCK_OF_KEY);
        assert_eq!(lock_id("tenure", b'g', b""), LOCK_OF_GATE);
    }

    const LOCK_OF_KEY: i64 = 1_668_653_356_113_254_030;
    const LOCK_OF_GATE: i64 = 1_281_104_578_517_259_643;
}
