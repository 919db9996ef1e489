//! What processes tell each other about their commits, as the payload of a NOTIFY.
//!
//! ```text
//! process commits what what ...     for instance: 7f3a 2 k61 k62 p6162 b61-63 *
//! ```
//! Numbers of processes and bytes are hexadecimal: a payload is text, and may be of any encoding. `k` is a key or list, `p` a prefix, `b` all
//! between two bounds, `*` everything.

use std::fmt::Write as _;

use tenure_store::{Key, Range};

/// A payload must be shorter than 8,000 bytes.
const PAYLOAD_MAX: usize = 7900;

/// With more payloads than this, telling of everything is cheaper.
const PAYLOADS_MAX: usize = 16;

/// Commits of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    /// Whose.
    pub(crate) process: i64,
    /// How many.
    pub(crate) commits: u64,
    /// What they changed.
    pub(crate) ranges: Vec<Range>,
}

impl Announcement {
    /// As payloads, of which the first tells how many commits there were.
    pub(crate) fn encode(&self) -> Vec<String> {
        let Self { process, commits, ranges } = self;
        let head = |commits: u64| format!("{process:x} {commits}");
        let mut payloads = vec![head(*commits)];
        for range in ranges {
            let what = encode_range(range);
            let last = payloads.last_mut().expect("there is always one");
            if last.len() + what.len() < PAYLOAD_MAX {
                last.push_str(&what);
            } else {
                payloads.push(head(0) + &what);
            }
        }
        if payloads.len() > PAYLOADS_MAX {
            return vec![head(*commits) + &encode_range(&Range::all())];
        }
        payloads
    }

    /// What a payload says, if it is one of ours.
    pub(crate) fn decode(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let process = u64::from_str_radix(words.next()?, 16).ok()?.cast_signed();
        let commits = words.next()?.parse().ok()?;
        let ranges = words.map(decode_range).collect::<Option<_>>()?;
        Some(Self { process, commits, ranges })
    }
}

fn encode_range(range: &Range) -> String {
    match range {
        Range::Key(key) => format!(" k{}", hex(key)),
        Range::Prefix(prefix) if prefix.is_empty() => " *".into(),
        Range::Prefix(prefix) => format!(" p{}", hex(prefix)),
        Range::Between { start, end } => format!(" b{}-{}", hex(start), hex(end)),
    }
}

fn decode_range(word: &str) -> Option<Range> {
    if word == "*" {
        return Some(Range::all());
    }
    let (kind, rest) = word.split_at_checked(1)?;
    match kind {
        "k" => Some(Range::Key(unhex(rest)?)),
        "p" => Some(Range::Prefix(unhex(rest)?)),
        "b" => {
            let (start, end) = rest.split_once('-')?;
            Some(Range::Between { start: unhex(start)?, end: unhex(end)? })
        }
        _ => None,
    }
}

fn hex(key: &Key) -> String {
    key.as_bytes().iter().fold(String::with_capacity(2 * key.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Key> {
    let digits = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(digits).collect::<Option<Vec<u8>>>().map(Key::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(announcement: &Announcement) -> Announcement {
        let payloads = announcement.encode();
        assert!(payloads.iter().all(|payload| payload.len() < 8000 && payload.is_ascii()));
        let mut parts = payloads.iter().map(|payload| Announcement::decode(payload).unwrap());
        let first = parts.next().unwrap();
        parts.fold(first, |mut all, part| {
            all.commits += part.commits;
            all.ranges.extend(part.ranges);
            all
        })
    }

    #[test]
    fn what_is_told_is_what_is_heard() {
        let ranges = vec![
            Range::Key(Key::new(vec![0, 255, b' ', b'\''])),
            Range::Prefix(Key::from("ab")),
            Range::Between { start: Key::new(vec![]), end: Key::from("z") },
            Range::all(),
        ];
        let announcement = Announcement { process: -5, commits: 3, ranges };
        assert_eq!(round_trip(&announcement), announcement);
    }

    #[test]
    fn long_ones_take_several_payloads_and_very_long_ones_tell_of_everything() {
        let key = |n: usize| Range::Key(Key::new(vec![u8::try_from(n % 251).unwrap(); 1024]));
        let some = Announcement { process: 1, commits: 9, ranges: (0..20).map(key).collect() };
        assert!(some.encode().len() > 1);
        assert_eq!(round_trip(&some), some);
        let many = Announcement { process: 1, commits: 9, ranges: (0..200).map(key).collect() };
        assert_eq!(round_trip(&many), Announcement { ranges: vec![Range::all()], ..many });
    }

    #[test]
    fn what_others_send_is_not_ours() {
        for payload in ["", "x", "1", "1 x", "1 2 q00", "1 2 k0", "1 2 kzz", "1 2 b00", "zz 1", "1 2  k00"] {
            assert_eq!(Announcement::decode(payload), None, "{payload:?}");
        }
    }
}
