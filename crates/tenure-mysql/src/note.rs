//! Notes: what a commit touched, for those who watch from other processes.
//!
//! Each desk has a ring of notes, the newest first, and counts its turns. Whoever knows a turn of a desk finds what
//! happened since in its ring, or that it reaches no longer so far back. A note is a hint: where names are long or
//! many, it names prefixes of them, each as long as there is room for.
//!
//! Of its own commits a process hears otherwise. It can make many more between two looks than a ring holds, so
//! sessions number their notes: a session that has left as many since the last look as its desk has had turns was
//! the only one there, and the notes that are gone were all its own.
//!
//! ```text
//! note   length of the rest 2, session 8, number 8, names
//! name   kind 1 (0 key, 1 prefix), shared 1, length 1, bytes
//!        (names are sorted, and each begins with so many bytes of the one before: most names of a commit begin alike)
//! ```

use tenure_store::{Bytes, Key, Range, Write};

/// How much of a ring one note may take: so the ring always reaches back a few.
const NOTE_BYTES_MAX: usize = 240;

const HEAD_BYTES: usize = 18;

/// Names that are too long together are all cut to one length, which is so much less at each try.
const CUT_BYTES: usize = 8;

/// Who left a note, and which of its notes it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The session.
    pub(crate) session: u64,
    /// One more than in the session's note before. Commits that come to nothing leave no note and have no number.
    pub(crate) number: u64,
}

/// A note of these writes.
pub(crate) fn encode(stamp: Stamp, writes: &[Write]) -> Vec<u8> {
    let mut ranges: Vec<Range> = writes.iter().map(|write| simple(write.range())).collect();
    // A prefix comes before a key of the same name, which it covers.
    ranges.sort_by(|left, right| (left.start(), is_key(left)).cmp(&(right.start(), is_key(right))));
    let room = NOTE_BYTES_MAX - HEAD_BYTES;
    let mut most = room;
    let names = loop {
        ranges = ranges.into_iter().map(|range| cut(range, most)).collect();
        ranges.dedup_by(|next, kept| kept.contains(next.start()));
        match names(&ranges, room) {
            Some(names) => break names,
            // With nothing left of them, all names are one, which fits.
            None => most = most.saturating_sub(CUT_BYTES),
        }
    };
    let length = u16::try_from(HEAD_BYTES - 2 + names.len()).expect("a note is short");
    let mut note = length.to_be_bytes().to_vec();
    note.extend(stamp.session.to_be_bytes());
    note.extend(stamp.number.to_be_bytes());
    note.extend(names);
    note
}

/// The stamp of the newest note of a ring.
pub(crate) fn newest(ring: &Bytes) -> Option<Stamp> {
    split(&mut ring.clone()).map(|(stamp, _)| stamp)
}

/// What the `turns` newest notes of a ring say, without those of sessions that are `known`; `None` if it does not reach back so far.
/// `last` is the newest note of the time before them.
pub(crate) fn decode(
    ring: &Bytes,
    turns: u64,
    last: Option<Stamp>,
    known: impl Fn(u64) -> bool,
) -> Option<Vec<Range>> {
    let mut ranges = Vec::new();
    let mut rest = ring.clone();
    for left in (1..=turns).rev() {
        let (stamp, names) = split(&mut rest)?;
        if !known(stamp.session) {
            read_names(names, &mut ranges)?;
            continue;
        }
        let since = last.filter(|last| last.session == stamp.session).map(|last| last.number);
        if since.and_then(|since| stamp.number.checked_sub(since)) == Some(left) {
            // This note and all that are left are of one session.
            break;
        }
    }
    Some(ranges)
}

/// Takes the newest note off a ring: its stamp and its names.
fn split(ring: &mut Bytes) -> Option<(Stamp, Bytes)> {
    let length = usize::from(u16::from_be_bytes(take(ring, 2)?[..].try_into().ok()?));
    let mut note = take(ring, length)?;
    let mut number = || Some(u64::from_be_bytes(take(&mut note, 8)?[..].try_into().ok()?));
    let stamp = Stamp { session: number()?, number: number()? };
    Some((stamp, note))
}

fn read_names(mut names: Bytes, ranges: &mut Vec<Range>) -> Option<()> {
    let mut last: Vec<u8> = Vec::new();
    while !names.is_empty() {
        let head = take(&mut names, 3)?;
        if usize::from(head[1]) > last.len() {
            return None;
        }
        last.truncate(head[1].into());
        last.extend_from_slice(&take(&mut names, head[2].into())?);
        let name = Key::new(last.clone());
        ranges.push(if head[0] == 0 { Range::Key(name) } else { Range::Prefix(name) });
    }
    Some(())
}

fn take(bytes: &mut Bytes, count: usize) -> Option<Bytes> {
    (bytes.len() >= count).then(|| bytes.split_to(count))
}

/// The names of these ranges as a note tells them, if there is room.
fn names(ranges: &[Range], room: usize) -> Option<Vec<u8>> {
    let (mut names, mut last): (Vec<u8>, &[u8]) = (Vec::new(), &[]);
    for range in ranges {
        let name = range.start().as_bytes();
        let (same, rest) = name.split_at(shared(last, name));
        let byte = |length: usize| u8::try_from(length).expect("names are cut to what a note can hold");
        names.extend([u8::from(!is_key(range)), byte(same.len()), byte(rest.len())]);
        names.extend(rest);
        if names.len() > room {
            return None;
        }
        last = name;
    }
    Some(names)
}

/// A key or a prefix that contains this range.
fn simple(range: Range) -> Range {
    match range {
        Range::Between { start, end } => {
            let length = shared(start.as_bytes(), end.as_bytes());
            Range::Prefix(prefix(&start, length))
        }
        other => other,
    }
}

/// A range that contains this one and whose name is no longer than `most`.
fn cut(range: Range, most: usize) -> Range {
    if range.start().len() <= most { range } else { Range::Prefix(prefix(range.start(), most)) }
}

fn prefix(key: &Key, length: usize) -> Key {
    Key::new(key.to_bytes().slice(..length))
}

fn is_key(range: &Range) -> bool {
    matches!(range, Range::Key(_))
}

/// How many bytes both begin with.
fn shared(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> Write {
        Write::Set(name.into(), Bytes::new())
    }

    fn key(name: &str) -> Range {
        Range::Key(name.into())
    }

    fn stamp(session: u64, number: u64) -> Stamp {
        Stamp { session, number }
    }

    fn ring(notes: &[Vec<u8>]) -> Bytes {
        Bytes::from(notes.concat())
    }

    fn told(writes: &[Write]) -> Vec<Range> {
        let note = encode(stamp(1, 1), writes);
        assert!(note.len() <= NOTE_BYTES_MAX, "{}", note.len());
        decode(&ring(&[note]), 1, None, |_| false).unwrap()
    }

    #[test]
    fn notes_are_read_back_newest_first() {
        let old = encode(stamp(1, 7), &[Write::DeleteRange(Range::Prefix("p".into())), set("ab"), set("a")]);
        let ring = ring(&[encode(stamp(2, 1), &[set("b")]), old]);
        let both = vec![key("b"), key("a"), key("ab"), Range::Prefix("p".into())];
        assert_eq!(newest(&ring), Some(stamp(2, 1)));
        assert_eq!(decode(&ring, 0, None, |_| false), Some(vec![]));
        assert_eq!(decode(&ring, 1, None, |_| false), Some(vec![key("b")]));
        assert_eq!(decode(&ring, 2, None, |_| false), Some(both));
        assert_eq!(decode(&ring, 2, None, |session| session == 1), Some(vec![key("b")]));
        assert_eq!(decode(&ring, 3, None, |_| false), None);
        assert_eq!(decode(&ring.slice(..ring.len() - 1), 2, None, |_| false), None);
        assert_eq!(newest(&Bytes::new()), None);
    }

    #[test]
    fn notes_that_are_gone_are_not_missed_if_all_were_of_one_session_that_is_known() {
        let ring = ring(&[encode(stamp(2, 1), &[set("b")]), encode(stamp(1, 50), &[set("a")])]);
        let last = |number| Some(stamp(1, number));
        // The known session left 40 notes since; there were as many turns, and one of another.
        assert_eq!(decode(&ring, 41, last(10), |session| session == 1), Some(vec![key("b")]));
        // Somebody else has left one that is gone.
        assert_eq!(decode(&ring, 42, last(10), |session| session == 1), None);
        // What others have left is not known from their numbers.
        assert_eq!(decode(&ring, 41, last(10), |_| false), None);
        // The last note was not of this session, or is not known; or numbers go back, which they never do.
        assert_eq!(decode(&ring, 41, Some(stamp(3, 10)), |session| session == 1), None);
        assert_eq!(decode(&ring, 41, None, |session| session == 1), None);
        assert_eq!(decode(&ring, 41, last(60), |session| session == 1), None);
    }

    #[test]
    fn a_note_covers_every_write_and_is_short() {
        let many: Vec<Write> = (0..500).map(|at| set(&format!("shared/{at}"))).collect();
        let unlike: Vec<Write> = (0..=255).map(|at| Write::Delete(Key::new(vec![at; 100]))).collect();
        let long = vec![Write::Append(Key::new(vec![7; 1024]), Bytes::new()), set("short")];
        let between = Range::Between { start: "ab1".into(), end: "ab3".into() };
        let ranges = vec![Write::DeleteRange(between), Write::DeleteRange(Range::all()), set("k")];
        for writes in [many, unlike, long, ranges, vec![set(""), set("")]] {
            let told = told(&writes);
            for write in writes {
                let range = write.range();
                let covered = |told: &Range| {
                    told.contains(range.start())
                        && range.end().is_none_or(|end| told.end().is_none_or(|told| end <= told))
                };
                assert!(told.iter().any(covered), "{range:?} in {told:?}");
            }
        }
    }

    /// What wakes a server is told apart from all else, however long the names of clusters and servers are.
    #[test]
    fn long_names_are_cut_behind_what_sets_them_apart() {
        let cluster = "c".repeat(64);
        let name = |area: &str| format!("tenure/{cluster}/{area}/kind/{}", "s".repeat(64));
        let replies = (0..20).map(|at| set(&format!("tenure/{cluster}/own/session/reply/{at:020}")));
        let areas = ["head", "queue", "state", "work"].map(|area| set(&name(area)));
        let told = told(&replies.chain(areas).collect::<Vec<Write>>());
        for area in ["own/session/", "head/", "queue/", "state/", "work/"] {
            let start = format!("tenure/{cluster}/{area}");
            let count =
                told.iter().filter(|range| range.start().as_bytes().starts_with(start.as_bytes())).count();
            assert_eq!(count, 1, "{area}: {told:?}");
        }
        assert_eq!(told.len(), 5, "{told:?}");
    }
}
