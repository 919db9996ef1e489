//! Where keys and entries are in etcd.
//!
//! ```text
//! prefix // k key                                a key
//! prefix // l list with 0 as 0 255 | 0 1 | id    an entry, the id being 24 bytes
//! prefix // n                                    never there: deleting it makes a transaction pass through the log
//! ```
//! The prefix has no `//` in it and no `/` at its end. So what stands before the first `//` of an etcd key tells whose it is, and no two
//! stores of different prefixes meet, though one prefix begin the other.
//!
//! List names keep their order when escaped, and no escaped name with its end mark begins another. So the entries of a list are one
//! range of etcd keys, and the entries of all lists in a range of names are one too.

use bytes::Bytes;
use tenure_store::{EntryId, Key, Range};

/// What ends the name of a list: less than what any byte behind the name could have become.
const LIST_END: [u8; 2] = [0, 1];

/// How many bytes an entry id has: a revision, a process and a count.
const ID_BYTES: usize = 24;

/// A range of etcd keys.
pub(crate) type Span = (Bytes, Bytes);

/// Where the things of one store are.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: Vec<u8>,
}

impl Layout {
    pub(crate) fn new(prefix: &str) -> Self {
        Self { root: format!("{prefix}//").into_bytes() }
    }

    /// Everything of this store.
    pub(crate) fn all(&self) -> Span {
        (self.place(b'k', &[]), self.place(b'm', &[]))
    }

    /// The two ends of everything, where next to nothing is. A look at a range costs etcd as much as there is in it, whatever its limit.
    pub(crate) fn ends(&self) -> [Span; 2] {
        let (first, last) = self.all();
        [(first, self.place(b'k', &[0])), (self.place(b'l', &[0xff; 8]), last)]
    }

    pub(crate) fn key(&self, key: &Key) -> Bytes {
        self.place(b'k', key.as_bytes())
    }

    /// A key that is never there.
    pub(crate) fn never(&self) -> Bytes {
        self.place(b'n', &[])
    }

    pub(crate) fn entry(&self, list: &Key, id: &EntryId) -> Bytes {
        self.place(b'l', &[&escape(list.as_bytes())[..], &LIST_END, id.as_bytes()].concat())
    }

    /// The keys in a range, or nothing if there can be none.
    pub(crate) fn keys(&self, range: &Range) -> Option<Span> {
        let end = range.end().map_or_else(|| self.place(b'l', &[]), |end| self.key(&end));
        (!range.is_empty()).then(|| (self.key(range.start()), end))
    }

    /// The entries of all lists in a range, or nothing if there can be none.
    pub(crate) fn lists(&self, range: &Range) -> Option<Span> {
        let bound = |name: &Key| self.place(b'l', &escape(name.as_bytes()));
        let end = range.end().map_or_else(|| self.place(b'm', &[]), |end| bound(&end));
        (!range.is_empty()).then(|| (bound(range.start()), end))
    }

    /// The entries of a list behind `after`.
    pub(crate) fn list(&self, list: &Key, after: Option<&EntryId>) -> Span {
        let name = escape(list.as_bytes());
        let start = match after {
            None => self.place(b'l', &[&name[..], &LIST_END].concat()),
            Some(id) => self.place(b'l', &[&name[..], &LIST_END, id.as_bytes(), &[0]].concat()),
        };
        (start, self.place(b'l', &[&name[..], &[LIST_END[0], LIST_END[1] + 1]].concat()))
    }

    /// The key that is at this place, if one can be.
    pub(crate) fn to_key(&self, place: &Bytes) -> Option<Key> {
        place.strip_prefix(&self.root[..])?.strip_prefix(b"k").map(|key| Key::new(place.slice_ref(key)))
    }

    /// The list that has an entry at this place and the entry's id, if there can be one.
    pub(crate) fn to_entry(&self, place: &Bytes) -> Option<(Key, EntryId)> {
        let rest = place.strip_prefix(&self.root[..])?.strip_prefix(b"l")?;
        let (name, id) = rest.split_at_checked(rest.len().checked_sub(ID_BYTES)?)?;
        let name = unescape(name.strip_suffix(&LIST_END)?)?;
        Some((name, EntryId::new(place.slice_ref(id))))
    }

    /// What a change at this place concerns; everything, if it is not known.
    pub(crate) fn to_range(&self, place: &Bytes) -> Range {
        let name = self.to_key(place).or_else(|| self.to_entry(place).map(|(list, _)| list));
        name.map_or_else(Range::all, Range::Key)
    }

    fn place(&self, kind: u8, rest: &[u8]) -> Bytes {
        [&self.root[..], &[kind], rest].concat().into()
    }
}

/// An id that sorts behind those of all entries that were there at `revision`, and, of one process, behind those with a lower `count`.
pub(crate) fn entry_id(revision: i64, process: u64, count: u64) -> EntryId {
    let revision = revision.cast_unsigned();
    EntryId::new([revision, process, count].map(u64::to_be_bytes).concat())
}

/// Whether this store could have given the id.
pub(crate) fn is_entry_id(id: &EntryId) -> bool {
    id.as_bytes().len() == ID_BYTES
}

fn escape(name: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for byte in name {
        escaped.push(*byte);
        if *byte == 0 {
            escaped.push(0xFF);
        }
    }
    escaped
}

fn unescape(escaped: &[u8]) -> Option<Key> {
    let mut name = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(byte) = bytes.next() {
        if *byte == 0 && bytes.next() != Some(&0xFF) {
            return None;
        }
        name.push(*byte);
    }
    Some(Key::from(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::new("tenure")
    }

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes.to_vec())
    }

    /// Names that sort and begin one another in every way that an escape could get wrong, in order.
    fn names() -> Vec<Key> {
        let pieces: [&[u8]; 6] = [b"\0", b"\0\0", b"\0\x01", b"\x01", b"a", b"\xFF"];
        let mut names: Vec<Key> = pieces
            .iter()
            .flat_map(|one| {
                let two = pieces.iter().map(|two| key(&[*one, *two].concat()));
                two.chain([key(one)])
            })
            .collect();
        names.sort();
        names.dedup();
        names
    }

    fn ids() -> [EntryId; 3] {
        [entry_id(0, 0, 0), entry_id(1, 2, 3), entry_id(i64::MAX, u64::MAX, u64::MAX)]
    }

    fn within(place: &Bytes, span: &Span) -> bool {
        *place >= span.0 && *place < span.1
    }

    #[test]
    fn entries_sort_by_list_then_by_id_and_come_back() {
        let mut places = Vec::new();
        for list in names() {
            for id in ids() {
                let place = layout().entry(&list, &id);
                assert_eq!(layout().to_entry(&place), Some((list.clone(), id)));
                assert_eq!(layout().to_range(&place), Range::Key(list.clone()));
                places.push(place);
            }
        }
        assert!(places.is_sorted_by(|one, next| one < next));
    }

    #[test]
    fn a_list_holds_its_entries_and_no_others() {
        for list in names() {
            for other in names() {
                for id in ids() {
                    let inside = within(&layout().entry(&other, &id), &layout().list(&list, None));
                    assert_eq!(inside, list == other, "{other} in {list}");
                }
            }
            let after = layout().list(&list, Some(&ids()[1]));
            assert_eq!(ids().map(|id| within(&layout().entry(&list, &id), &after)), [false, false, true]);
        }
    }

    #[test]
    fn ranges_hold_the_keys_and_lists_in_them_and_no_others() {
        let mut ranges = vec![Range::all()];
        for name in names() {
            ranges.push(Range::Key(name.clone()));
            ranges.push(Range::Prefix(name.clone()));
            ranges.extend(
                names().into_iter().map(|end| Range::Between { start: name.clone(), end: end.join(&[0]) }),
            );
        }
        for range in ranges {
            for name in names() {
                let key = layout().keys(&range).is_some_and(|span| within(&layout().key(&name), &span));
                assert_eq!(key, range.contains(&name), "the key {name} in {range:?}");
                for id in ids() {
                    let entry = layout().entry(&name, &id);
                    let list = layout().lists(&range).is_some_and(|span| within(&entry, &span));
                    assert_eq!(list, range.contains(&name), "the list {name} in {range:?}");
                }
            }
        }
    }

    #[test]
    fn keys_come_back_and_are_apart_from_lists() {
        for name in names() {
            let place = layout().key(&name);
            assert_eq!(layout().to_key(&place), Some(name.clone()));
            assert_eq!(layout().to_range(&place), Range::Key(name.clone()));
            assert!(layout().to_entry(&place).is_none() && within(&place, &layout().all()));
            let entry = layout().entry(&name, &ids()[1]);
            assert!(layout().to_key(&entry).is_none() && within(&entry, &layout().all()));
        }
        assert!(!within(&layout().never(), &layout().all()));
    }

    #[test]
    fn what_no_store_wrote_is_not_taken_for_an_entry() {
        for place in
            ["tenure//l", "tenure//lname", "tenure//l\0\x01short", "other//l\0\x01012345678901234567890123"]
        {
            let place = Bytes::copy_from_slice(place.as_bytes());
            assert_eq!(layout().to_entry(&place), None, "{place:?}");
            assert_eq!(layout().to_range(&place), Range::all());
        }
    }

    #[test]
    fn prefixes_that_begin_one_another_do_not_meet() {
        let prefixes = ["a", "ak", "a/k", "a/l", "al"];
        for one in prefixes {
            for other in prefixes.iter().filter(|other| **other != one) {
                let all = Layout::new(one).all();
                let (start, end) = Layout::new(other).all();
                assert!(end <= all.0 || start >= all.1, "{one} and {other}");
            }
        }
    }
}
