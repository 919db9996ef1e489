//! Slots: what commits lock instead of keys and lists.
//!
//! A row that does not exist can't be locked, and a check may speak of just such a row. So each key and each list has its places in the
//! table of slots, found by hashing its name, and whoever writes or checks it locks those. Two names that share a slot wait for each
//! other for nothing; they are never mixed up.
//!
//! | what | for | locked by |
//! | --- | --- | --- |
//! | the slot of a key | its version | `Set`, `Delete`: alone; `Version`, `Absent`: shared |
//! | the fan of a key | its existence | `Delete`: all places alone; `Present`: one place, shared |
//! | the fan of a list | its being empty | `Empty`: all places alone; `Append`: one place, alone |
//!
//! A **fan** has eight places, and each session has its own of them, so that those who need only one rarely meet. In a cluster row locks
//! do not reach other nodes, and only rows that changed are compared at commit; there, every lock is one that writes.
//!
//! Each slot has a **floor**: the count in no version of a key in it, and in no id of a list in it, was ever above. A commit's count is above
//! the floors of all slots that it writes, and becomes their floor. Behind the count, a version has the number of the session: InnoDB shows a
//! commit to others shortly before it is on disk, and should a crash take it back, the same count is used again, but by another session.

use std::collections::BTreeMap;

use tenure_store::{Check, Commit, Key, Range, Write};

/// Slots for the versions of keys. With 64 commits of 4 keys each under way, a further key meets one of them by chance in 1 of 32 cases.
const KEYS: u64 = 8192;

/// Fans, behind the slots of keys.
const FANS: u64 = 1024;

/// Places of a fan. The procedure for commits counts on it.
pub(crate) const PLACES: u32 = 8;

/// The slot behind all others: it counts sessions.
pub(crate) const SESSIONS: u64 = KEYS + FANS * PLACES as u64;

/// How many slots there are. All are made with the tables, so that no commit has to.
pub(crate) const SLOTS: u64 = SESSIONS + 1;

/// Sets the hashes of a key's fan and of a list's apart from each other and from that of a key's slot.
const KEY_SLOT: u8 = 0;
const KEY_FAN: u8 = 1;
const LIST_FAN: u8 = 2;

/// What the procedure does with a slot: locks it, and writes it once the checks have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Shared.
    Share = 0,
    /// Alone; the count is above its floor, and becomes it.
    Raise = 1,
    /// Alone, and changed.
    Touch = 2,
    /// All places of the fan that starts here, alone.
    Fan = 3,
    /// All places of the fan that starts here, alone and changed.
    TouchFan = 4,
    /// The session's own place of the fan that starts here, alone; the count is above the floors of all places, and becomes the floor of this one.
    RaisePlace = 5,
}

/// Who locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Locker {
    /// Its place in each fan.
    pub(crate) place: u32,
    /// Whether there are other nodes, which see what it writes and not what it locks.
    pub(crate) cluster: bool,
}

/// A lock on the slot with this number.
pub(crate) type Lock = (Mode, u32);

/// The locks of a commit, in the order in which every commit takes its own: so no two wait for each other.
pub(crate) fn locks(commit: &Commit, locker: Locker) -> Vec<Lock> {
    let mut needs = Needs::default();
    for check in &commit.checks {
        match check {
            Check::Version(key, _) | Check::Absent(key) => {
                needs.keys.entry(key_slot(key)).or_insert(false);
            }
            Check::Present(key) => needs.fan(KEY_FAN, key).shared = true,
            Check::Empty(list) => needs.fan(LIST_FAN, list).alone = true,
        }
    }
    for write in &commit.writes {
        match write {
            Write::Set(key, _) => {
                needs.keys.insert(key_slot(key), true);
            }
            Write::Delete(key) => needs.delete(key),
            Write::DeleteRange(Range::Key(key)) => {
                needs.delete(key);
                needs.fan(LIST_FAN, key).alone = true;
            }
            Write::Append(list, _) => needs.fan(LIST_FAN, list).raised = true,
            // Other ranges are kept apart from all else by the gate. A removal can't make any check fail.
            Write::DeleteRange(_) | Write::Remove(..) => {}
        }
    }
    needs.locks(locker)
}

/// Which slots are needed for what.
#[derive(Default)]
struct Needs {
    /// Whether the slot is written.
    keys: BTreeMap<u32, bool>,
    fans: BTreeMap<u32, Fan>,
}

#[derive(Clone, Copy, Default)]
struct Fan {
    shared: bool,
    alone: bool,
    raised: bool,
}

impl Needs {
    fn fan(&mut self, kind: u8, name: &Key) -> &mut Fan {
        let fan = hash(kind, name) % FANS;
        self.fans.entry(number(KEYS + fan * u64::from(PLACES))).or_default()
    }

    fn delete(&mut self, key: &Key) {
        self.keys.insert(key_slot(key), true);
        self.fan(KEY_FAN, key).alone = true;
    }

    fn locks(self, locker: Locker) -> Vec<Lock> {
        let share = if locker.cluster { Mode::Touch } else { Mode::Share };
        let alone = if locker.cluster { Mode::TouchFan } else { Mode::Fan };
        let mut locks: Vec<Lock> = Vec::with_capacity(self.keys.len() + self.fans.len());
        locks.extend(
            self.keys.into_iter().map(|(slot, written)| (if written { Mode::Raise } else { share }, slot)),
        );
        for (first, fan) in self.fans {
            if fan.alone {
                locks.push((alone, first));
            }
            if fan.raised {
                locks.push((Mode::RaisePlace, first));
            } else if fan.shared && !fan.alone {
                locks.push((share, first + locker.place));
            }
        }
        locks
    }
}

fn key_slot(key: &Key) -> u32 {
    number(hash(KEY_SLOT, key) % KEYS)
}

fn number(slot: u64) -> u32 {
    u32::try_from(slot).expect("there are fewer slots than that")
}

/// FNV-1a with a last mixing. It decides where locks are, for every process and release that shares the tables: it must never change.
fn hash(kind: u8, name: &Key) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in [kind].iter().chain(name.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use tenure_store::Version;

    use super::*;

    const ALONE: Locker = Locker { place: 3, cluster: false };
    const MEMBER: Locker = Locker { place: 3, cluster: true };

    fn modes(commit: &Commit, locker: Locker) -> Vec<Mode> {
        locks(commit, locker).into_iter().map(|(mode, _)| mode).collect()
    }

    #[test]
    fn each_check_and_write_has_its_lock() {
        let k = || Key::from("k");
        let cases = [
            (Commit::new().check(Check::Version(k(), Version(1))), vec![Mode::Share], vec![Mode::Touch]),
            (Commit::new().check(Check::Absent(k())), vec![Mode::Share], vec![Mode::Touch]),
            (Commit::new().check(Check::Present(k())), vec![Mode::Share], vec![Mode::Touch]),
            (Commit::new().check(Check::Empty(k())), vec![Mode::Fan], vec![Mode::TouchFan]),
            (Commit::new().set(k(), "v"), vec![Mode::Raise], vec![Mode::Raise]),
            (Commit::new().delete(k()), vec![Mode::Raise, Mode::Fan], vec![Mode::Raise, Mode::TouchFan]),
            (Commit::new().append(k(), "e"), vec![Mode::RaisePlace], vec![Mode::RaisePlace]),
            (Commit::new().delete_range(Range::all()), vec![], vec![]),
        ];
        for (commit, alone, member) in cases {
            assert_eq!(modes(&commit, ALONE), alone, "{commit:?}");
            assert_eq!(modes(&commit, MEMBER), member, "{commit:?}");
        }
    }

    #[test]
    fn the_stronger_of_two_needs_counts() {
        let k = || Key::from("k");
        let write = Commit::new().check(Check::Version(k(), Version(1))).set(k(), "v");
        assert_eq!(modes(&write, ALONE), [Mode::Raise]);
        let delete = Commit::new().check(Check::Present(k())).delete(k());
        assert_eq!(modes(&delete, ALONE), [Mode::Raise, Mode::Fan]);
        let fill = Commit::new().check(Check::Empty(k())).append(k(), "e");
        assert_eq!(modes(&fill, MEMBER), [Mode::TouchFan, Mode::RaisePlace]);
    }

    #[test]
    fn locks_come_in_order_and_within_the_table() {
        let commit = (0..200).fold(Commit::new(), |all, at| {
            let key = Key::from(format!("k{at}").as_str());
            all.check(Check::Present(key.clone())).append(key.clone(), "e").set(key, "v")
        });
        let slots: Vec<u32> = locks(&commit, ALONE).into_iter().map(|(_, slot)| slot).collect();
        assert!(slots.is_sorted() && slots.iter().all(|slot| u64::from(*slot) < SESSIONS));
    }

    #[test]
    fn the_hash_is_the_one_that_stored_tables_know() {
        assert_eq!(hash(KEY_SLOT, &Key::from("k")), 0x0832_5d07_bcd9_7bdb);
    }
}
