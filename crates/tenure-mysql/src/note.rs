//! Notes: what a commit touched, for those who watch from other processes.
//!
//! Each desk has a ring of notes, the newest first, and counts its turns. Whoever knows a turn of a desk finds what happened since in
//! its ring, or that it reaches no longer so far back. A note is a hint: where names are long or many, it names a prefix that they share.
//!
//! ```text
//! note   length of the rest 2, session 8, names
//! name   kind 1 (0 key, 1 prefix), length 1, bytes
//! ```

use tenure_store::{Bytes, Key, Range, Write};

/// How much of a ring one note may take: so the ring always reaches back a few.
const NOTE_BYTES_MAX: usize = 240;

/// How much of a name is told.
const NAME_BYTES_MAX: usize = 96;

const HEAD_BYTES: usize = 10;

/// A note that a session made these writes.
pub(crate) fn encode(session: u64, writes: &[Write]) -> Vec<u8> {
    let ranges: Vec<Range> = writes.iter().map(|write| shorten(&write.range())).collect();
    let room = NOTE_BYTES_MAX - HEAD_BYTES;
    let needed: usize = ranges.iter().map(|range| 2 + range.start().len()).sum();
    let names = if needed <= room { ranges } else { vec![Range::Prefix(common(&ranges))] };
    let mut note = vec![0; 2];
    note.extend(session.to_be_bytes());
    for range in names {
        let name = range.start();
        note.push(u8::from(!matches!(range, Range::Key(_))));
        note.push(u8::try_from(name.len()).expect("names were shortened"));
        note.extend(name.as_bytes());
    }
    let length = u16::try_from(note.len() - 2).expect("a note is short");
    note[..2].copy_from_slice(&length.to_be_bytes());
    note
}

/// What the `turns` newest notes of a ring say, without those of sessions that are `known`; `None` if it does not reach back so far.
pub(crate) fn decode(ring: &Bytes, turns: u64, known: impl Fn(u64) -> bool) -> Option<Vec<Range>> {
    let mut ranges = Vec::new();
    let mut rest = ring.clone();
    for _ in 0..turns {
        let length = usize::from(u16::from_be_bytes(take(&mut rest, 2)?[..].try_into().ok()?));
        let mut names = take(&mut rest, length)?;
        let session = u64::from_be_bytes(take(&mut names, 8)?[..].try_into().ok()?);
        if known(session) {
            continue;
        }
        while !names.is_empty() {
            let head = take(&mut names, 2)?;
            let name = Key::new(take(&mut names, head[1].into())?);
            ranges.push(if head[0] == 0 { Range::Key(name) } else { Range::Prefix(name) });
        }
    }
    Some(ranges)
}

fn take(bytes: &mut Bytes, count: usize) -> Option<Bytes> {
    (bytes.len() >= count).then(|| bytes.split_to(count))
}

/// A range that contains this one and is told in few bytes.
fn shorten(range: &Range) -> Range {
    let range = match range {
        Range::Between { start, end } => Range::Prefix(shared(start, end)),
        other => other.clone(),
    };
    if range.start().len() <= NAME_BYTES_MAX {
        return range;
    }
    Range::Prefix(Key::new(range.start().to_bytes().slice(..NAME_BYTES_MAX)))
}

/// The longest prefix that all these have in common.
fn common(ranges: &[Range]) -> Key {
    let mut starts = ranges.iter().map(|range| range.start().clone());
    let first = starts.next().unwrap_or_else(|| Key::new(Bytes::new()));
    starts.fold(first, |left, right| shared(&left, &right))
}

fn shared(left: &Key, right: &Key) -> Key {
    let count = left.as_bytes().iter().zip(right.as_bytes()).take_while(|(one, other)| one == other).count();
    Key::new(left.to_bytes().slice(..count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str) -> Write {
        Write::Set(name.into(), Bytes::new())
    }

    fn ring(notes: &[Vec<u8>]) -> Bytes {
        Bytes::from(notes.concat())
    }

    #[test]
    fn notes_are_read_back_newest_first() {
        let old = encode(1, &[set("a"), Write::DeleteRange(Range::Prefix("p".into()))]);
        let ring = ring(&[encode(2, &[set("b")]), old]);
        let key = |name: &str| Range::Key(name.into());
        assert_eq!(decode(&ring, 0, |_| false), Some(vec![]));
        assert_eq!(decode(&ring, 1, |_| false), Some(vec![key("b")]));
        assert_eq!(decode(&ring, 2, |_| false), Some(vec![key("b"), key("a"), Range::Prefix("p".into())]));
        assert_eq!(decode(&ring, 2, |session| session == 1), Some(vec![key("b")]));
        assert_eq!(decode(&ring, 3, |_| false), None);
        assert_eq!(decode(&ring.slice(..ring.len() - 1), 2, |_| false), None);
    }

    #[test]
    fn a_note_covers_every_write_and_is_short() {
        let many: Vec<Write> = (0..500).map(|at| set(&format!("shared/{at}"))).collect();
        let long = vec![Write::Append(Key::new(vec![7; 1024]), Bytes::new())];
        let between = Range::Between { start: "ab1".into(), end: "ab3".into() };
        let ranges = vec![Write::DeleteRange(between), Write::DeleteRange(Range::all())];
        for writes in [many, long, ranges] {
            let note = encode(1, &writes);
            assert!(note.len() <= NOTE_BYTES_MAX, "{}", note.len());
            let told = decode(&ring(&[note]), 1, |_| false).unwrap();
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
}
