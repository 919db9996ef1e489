//! What a group of commits changed, as bytes: how one process tells the others whom to wake.

use bytes::Bytes;
use tenure_store::{Key, Part, Range, StoreError, Tuple};

/// Above this many bytes, naming what changed costs more than waking everybody.
const NAMES_BYTES_MAX: usize = 16 * 1024;

/// The changed ranges as one value, or `None` for "anything may have changed". A plain key is a plain part; a prefix is
/// nested alone, a range between two keys is nested as both.
pub(crate) fn encode<'a>(ranges: impl Iterator<Item = &'a Range>) -> Option<Vec<u8>> {
    let nested = |bounds: &[&Key]| {
        Part::Tuple(bounds.iter().fold(Tuple::new(), |tuple, bound| tuple.bytes(bound.to_bytes())))
    };
    let mut tuple = Tuple::new();
    let mut size = 0;
    for range in ranges {
        size += range.start().len();
        if size > NAMES_BYTES_MAX {
            return None;
        }
        tuple = tuple.part(match range {
            Range::Key(key) => Part::Bytes(key.to_bytes()),
            Range::Prefix(prefix) => nested(&[prefix]),
            Range::Between { start, end } => nested(&[start, end]),
        });
    }
    Some(tuple.key().as_bytes().to_vec())
}

/// What [`encode`] wrote.
pub(crate) fn decode(names: Option<Vec<u8>>) -> Result<Vec<Range>, StoreError> {
    let Some(names) = names else { return Ok(vec![Range::all()]) };
    let key = |part: Part| match part {
        Part::Bytes(bytes) => Ok(Key::new(bytes)),
        other => Err(StoreError::corrupt(format!("{other:?} in the log of changes is no key"))),
    };
    let range = |part: Part| match part {
        Part::Tuple(bounds) => {
            let mut bounds = bounds.into_parts().into_iter().map(key);
            match (bounds.next(), bounds.next()) {
                (Some(prefix), None) => Ok(Range::Prefix(prefix?)),
                (Some(start), Some(end)) => Ok(Range::Between { start: start?, end: end? }),
                (None, _) => Err(StoreError::corrupt("a range without bounds in the log of changes")),
            }
        }
        plain => key(plain).map(Range::Key),
    };
    Tuple::decode(&Key::new(Bytes::from(names)))?.into_parts().into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let ranges = vec![
            Range::Key(Key::new(vec![0, 1, 255])),
            Range::Prefix("p".into()),
            Range::all(),
            Range::Between { start: "a".into(), end: "b".into() },
        ];
        assert_eq!(decode(encode(ranges.iter())).unwrap(), ranges);
        assert_eq!(decode(encode([].iter())).unwrap(), vec![]);
    }

    #[test]
    fn too_much_to_name_is_everything() {
        let ranges: Vec<Range> = (0..100_u8).map(|n| Range::Key(Key::new(vec![n; 1000]))).collect();
        assert_eq!(encode(ranges.iter()), None);
        assert_eq!(decode(None).unwrap(), vec![Range::all()]);
    }

    #[test]
    fn foreign_bytes_are_an_error() {
        assert!(matches!(decode(Some(vec![1, 2, 3])), Err(StoreError::Corrupt(_))));
        let text = Tuple::new().text("t").key().as_bytes().to_vec();
        assert!(matches!(decode(Some(text)), Err(StoreError::Corrupt(_))));
    }
}
