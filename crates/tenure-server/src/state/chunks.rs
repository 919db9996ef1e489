//! Values as what is stored: in one piece, or in chunks with a head that says how many.
//!
//! | stored value | first byte | then |
//! | --- | --- | --- |
//! | a value in one piece | `1` | `MessagePack` |
//! | the head of a longer one | `2` | how many chunks (4 bytes), how many bytes in all (8 bytes), their stamp (8 bytes), big-endian |
//! | a chunk | `3` | the stamp (8 bytes), a part of the `MessagePack` |
//!
//! The stamp is a hash of the whole value. So a chunk of another value, or of an older one, is noticed though it has the right length.

use tenure_store::{Bytes, Key};

use super::{error::StateError, place::chunk};

const WHOLE: u8 = 1;
const HEAD: u8 = 2;
const CHUNK: u8 = 3;

const HEAD_BYTES: usize = 1 + 4 + 8 + 8;
const CHUNK_OVERHEAD: usize = 1 + 8;

/// The smallest size of chunks that makes sense: a head fits, and a chunk is more than its own overhead.
const CHUNK_BYTES_MIN: usize = 64;

/// A key with what is stored there.
pub(super) type Piece = (Key, Bytes);

/// A value put together from what is stored.
pub(super) struct Found {
    /// The `MessagePack`.
    pub(super) body: Bytes,
    /// In how many chunks it is stored; 0 when it is in one piece.
    pub(super) chunks: u32,
}

/// What is to be stored for a value: at `key` itself first, then its chunks in order. Nothing is longer than `chunk_bytes`.
pub(super) fn split(key: &Key, body: &[u8], chunk_bytes: usize) -> Vec<Piece> {
    let chunk_bytes = chunk_bytes.max(CHUNK_BYTES_MIN);
    if body.len() < chunk_bytes {
        return vec![(key.clone(), [&[WHOLE], body].concat().into())];
    }
    let stamp = stamp(body).to_be_bytes();
    let chunks = body.chunks(chunk_bytes - CHUNK_OVERHEAD);
    let count = u32::try_from(chunks.len()).expect("a value in memory has not that many chunks");
    let length = body.len() as u64;
    let head = [&[HEAD], &count.to_be_bytes()[..], &length.to_be_bytes(), &stamp].concat();
    let mut pieces = vec![(key.clone(), head.into())];
    for (number, slice) in (0..).zip(chunks) {
        pieces.push((chunk(key, number), [&[CHUNK], &stamp[..], slice].concat().into()));
    }
    pieces
}

/// The value at `key`, from all that is stored at and below it, in order. `None` when that is nothing.
pub(super) fn join(key: &Key, pieces: &[Piece]) -> Result<Option<Found>, StateError> {
    let Some(((first, value), below)) = pieces.split_first() else { return Ok(None) };
    if first != key {
        return Err(StateError::corrupt(format!("{first} lies below {key}, where there is no value")));
    }
    match value.split_first() {
        Some((&WHOLE, body)) => match below.first() {
            None => Ok(Some(Found { body: Bytes::copy_from_slice(body), chunks: 0 })),
            Some((surplus, _)) => {
                Err(StateError::corrupt(format!("{surplus} lies below {key}, whose value has no chunks")))
            }
        },
        Some((&HEAD, head)) => join_chunks(key, head, below).map(Some),
        Some((&CHUNK, _)) => Err(StateError::corrupt(format!("{key} is a chunk where a value should be"))),
        Some((format, _)) => Err(StateError::corrupt(format!(
            "{key} has the format {format}, which this release does not know: it is damaged, or a newer release wrote it"
        ))),
        None => Err(StateError::corrupt(format!("{key} has no bytes"))),
    }
}

fn join_chunks(key: &Key, head: &[u8], pieces: &[Piece]) -> Result<Found, StateError> {
    let Some((count, length, stamp)) = read_head(head) else {
        return Err(StateError::corrupt(format!(
            "{key} is the head of a value in chunks, but not a whole one"
        )));
    };
    let mut body = Vec::with_capacity(pieces.iter().map(|(_, value)| value.len()).sum());
    let mut pieces = pieces.iter();
    for number in 0..count {
        let expected = chunk(key, number);
        let slice = match pieces.next() {
            Some((found, value)) if *found == expected => chunk_of(value, stamp),
            _ => return Err(StateError::corrupt(format!("{expected} is missing, one of {count} chunks"))),
        };
        body.extend_from_slice(slice.ok_or_else(|| {
            StateError::corrupt(format!("{expected} is not a chunk of the value that {key} speaks of"))
        })?);
    }
    if let Some((surplus, _)) = pieces.next() {
        return Err(StateError::corrupt(format!(
            "{surplus} lies below {key}, whose value has {count} chunks"
        )));
    }
    if body.len() as u64 != length || self::stamp(&body) != stamp {
        return Err(StateError::corrupt(format!("{key} speaks of another value than what its chunks are")));
    }
    Ok(Found { body: body.into(), chunks: count })
}

fn read_head(head: &[u8]) -> Option<(u32, u64, u64)> {
    if head.len() != HEAD_BYTES - 1 {
        return None;
    }
    let (count, rest) = head.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let stamp = rest.first_chunk()?;
    Some((u32::from_be_bytes(*count), u64::from_be_bytes(*length), u64::from_be_bytes(*stamp)))
}

fn chunk_of(value: &[u8], stamp: u64) -> Option<&[u8]> {
    value.strip_prefix(&[CHUNK])?.strip_prefix(&stamp.to_be_bytes())
}

/// FNV-1a: it is against accidents, not against malice, and it must be the same in every release.
fn stamp(body: &[u8]) -> u64 {
    body.iter()
        .fold(0xCBF2_9CE4_8422_2325, |stamp, byte| (stamp ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corrupt(pieces: &[Piece], names: &Key) {
        let error = join(&Key::from("k"), pieces).err().expect("this is corrupt").to_string();
        assert!(error.starts_with("corrupt") && error.contains(&names.to_string()), "{error}");
    }

    #[test]
    fn a_value_comes_back_in_pieces_of_any_size() {
        let key = Key::from("k");
        for length in [0, 1, 62, 63, 64, 65, 110, 111, 1000] {
            let body: Vec<u8> = (0..=255).cycle().take(length).collect();
            let pieces = split(&key, &body, 64);
            assert!(pieces.iter().all(|(_, value)| value.len() <= 64));
            assert_eq!(pieces.len() == 1, length < 64, "{length}");
            let found = join(&key, &pieces).unwrap().unwrap();
            assert_eq!((found.body.as_ref(), found.chunks as usize), (body.as_slice(), pieces.len() - 1));
        }
    }

    #[test]
    fn chunks_that_are_not_the_right_ones_are_named() {
        let (key, body) = (Key::from("k"), (0..200).collect::<Vec<u8>>());
        let good = split(&key, &body, 64);
        let with = |change: &dyn Fn(&mut Vec<Piece>)| {
            let mut pieces = good.clone();
            change(&mut pieces);
            pieces
        };
        let last = chunk(&key, 3);
        assert_eq!(good.last().unwrap().0, last);
        corrupt(&with(&|pieces| drop(pieces.pop())), &last);
        corrupt(&with(&|pieces| drop(pieces.remove(2))), &chunk(&key, 1));
        corrupt(&with(&|pieces| pieces.push((chunk(&key, 4), pieces[1].1.clone()))), &chunk(&key, 4));
        corrupt(&with(&|pieces| pieces[2].1 = split(&key, &[8; 200], 64)[2].1.clone()), &chunk(&key, 1));
        corrupt(&with(&|pieces| pieces[2].1 = pieces[3].1.clone()), &key);
        corrupt(&with(&|pieces| pieces[4].1 = pieces[3].1.clone()), &key);
        corrupt(&with(&|pieces| drop(pieces.remove(0))), &chunk(&key, 0));
        corrupt(&with(&|pieces| pieces[0].1 = split(&key, &[1], 64)[0].1.clone()), &chunk(&key, 0));
        corrupt(&with(&|pieces| pieces[0].1 = pieces[0].1.slice(..20)), &key);
        corrupt(&[(key.clone(), Bytes::new())], &key);
        corrupt(&[(key.clone(), Bytes::from_static(&[9, 1]))], &key);
    }

    #[test]
    fn a_head_that_claims_four_billion_chunks_is_not_believed() {
        let head = [&[HEAD][..], &[0xFF; 20]].concat();
        corrupt(&[(Key::from("k"), head.into())], &chunk(&Key::from("k"), 0));
    }
}
