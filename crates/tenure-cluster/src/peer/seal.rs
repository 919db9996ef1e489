//! [`Seal`]: what proves that a message on a link was said by who opened it, in this place and not again.

use std::fmt;

use bytes::Bytes;
use ring::{digest, hmac};

/// Seals what one side says, or checks it: `HMAC-SHA256(key, number, SHA256(parts))`. The number is the message's place, counted by both sides, so
/// that none can be left out, repeated or moved.
pub(super) struct Seal {
    key: hmac::Key,
    next: u64,
}

/// A message that was not said like this, or not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the seal is broken")]
pub(super) struct BrokenSeal;

impl Seal {
    /// A seal with a key of its own.
    pub(super) fn new(key: &[u8]) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key), next: 0 }
    }

    /// The next message's number and seal.
    pub(super) fn close(&mut self, parts: &[&[u8]]) -> (u64, Bytes) {
        let number = self.next;
        self.next += 1;
        (number, Bytes::copy_from_slice(hmac::sign(&self.key, &sealed(number, parts)).as_ref()))
    }

    /// Checks the next message, in a time that tells nothing about what would be right.
    pub(super) fn open(&mut self, number: u64, parts: &[&[u8]], seal: &[u8]) -> Result<(), BrokenSeal> {
        if number != self.next {
            return Err(BrokenSeal);
        }
        hmac::verify(&self.key, &sealed(number, parts), seal).map_err(|_| BrokenSeal)?;
        self.next += 1;
        Ok(())
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("next", &self.next).finish_non_exhaustive()
    }
}

/// What is signed. A digest of the parts, so that a large body is not copied.
fn sealed(number: u64, parts: &[&[u8]]) -> Vec<u8> {
    let mut digest = digest::Context::new(&digest::SHA256);
    for part in parts {
        digest.update(&(part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    [&number.to_be_bytes()[..], digest.finish().as_ref()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_pass_in_order() {
        let (mut one, mut other) = (Seal::new(b"key"), Seal::new(b"key"));
        for body in ["a", "b", ""] {
            let (number, seal) = one.close(&[b"id", body.as_bytes()]);
            other.open(number, &[b"id", body.as_bytes()], &seal).unwrap();
        }
    }

    #[test]
    fn what_is_changed_repeated_left_out_or_forged_does_not() {
        let (mut one, mut other) = (Seal::new(b"key"), Seal::new(b"key"));
        let (first, seal) = one.close(&[b"id", b"body"]);
        assert_eq!(other.open(first, &[b"id", b"bodY"], &seal), Err(BrokenSeal));
        assert_eq!(other.open(first, &[b"idb", b"ody"], &seal), Err(BrokenSeal));
        assert_eq!(other.open(first, &[b"id", b"body"], &seal[1..]), Err(BrokenSeal));
        let (_, forged) = Seal::new(b"yek").close(&[b"id", b"body"]);
        assert_eq!(other.open(first, &[b"id", b"body"], &forged), Err(BrokenSeal));
        other.open(first, &[b"id", b"body"], &seal).unwrap();
        assert_eq!(other.open(first, &[b"id", b"body"], &seal), Err(BrokenSeal), "again");
        assert_eq!(other.open(1, &[b"id", b"body"], &seal), Err(BrokenSeal), "in another place");
        let (_, _) = one.close(&[b"second"]);
        let (third, seal) = one.close(&[b"third"]);
        assert_eq!(other.open(third, &[b"third"], &seal), Err(BrokenSeal), "without the second");
    }
}
