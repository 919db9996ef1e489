//! [`Encoder`] and [`Decoder`]: how records become bytes, strictly, bounded, and without a schema compiler.
//!
//! Every record starts with the number of its format. Numbers are big-endian, texts and bytes have their length before them. There is exactly
//! one encoding of a record; whatever else is found is told as corrupt, never guessed at.

use crate::{Key, Name, StoreError};
use bytes::Bytes;

/// Collects the bytes of one record.
#[derive(Debug, Default)]
#[must_use]
pub struct Encoder(Vec<u8>);

impl Encoder {
    /// A record of this format.
    pub fn new(format: u8) -> Self {
        Self(vec![format])
    }

    /// The same, with room for so many bytes.
    pub fn with_room(format: u8, bytes: usize) -> Self {
        let mut record = Vec::with_capacity(bytes + 1);
        record.push(format);
        Self(record)
    }

    /// Adds one byte.
    pub fn byte(mut self, byte: u8) -> Self {
        self.0.push(byte);
        self
    }

    /// Adds a number.
    pub fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    /// Adds as many bytes as every record of this format has here.
    pub fn array<const N: usize>(mut self, array: [u8; N]) -> Self {
        self.0.extend(array);
        self
    }

    /// Adds bytes, with their length before them.
    ///
    /// # Panics
    /// If they are longer than any store takes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).expect("a store takes no longer values");
        self.0.extend(length.to_be_bytes());
        self.0.extend(bytes);
        self
    }

    /// Adds a text.
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Each of these by `one`, with their number before them.
    pub fn many<T>(self, items: impl ExactSizeIterator<Item = T>, one: impl Fn(Self, T) -> Self) -> Self {
        let counted = self.number(items.len() as u64);
        items.fold(counted, one)
    }

    /// Adds a flag, and what it stands for by `one`.
    pub fn optional<T>(self, item: Option<T>, one: impl FnOnce(Self, T) -> Self) -> Self {
        match item {
            Some(item) => one(self.byte(1), item),
            None => self.byte(0),
        }
    }

    /// The record.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.0.into()
    }
}

/// Takes a record apart.
#[derive(Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

/// Where a record is not what was ever written.
#[derive(Debug)]
pub struct Flaw(&'static str);

impl Flaw {
    /// A flaw in words that go on after "the value of key has".
    #[must_use]
    pub fn new(words: &'static str) -> Self {
        Self(words)
    }
}

impl<'a> Decoder<'a> {
    /// Decodes the whole value of `key` by `read`.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`], naming the key, the flaw and where it is.
    pub fn all<T>(
        key: &Key,
        value: &'a [u8],
        format: u8,
        read: impl FnOnce(&mut Self) -> Result<T, Flaw>,
    ) -> Result<T, StoreError> {
        let mut decoder = Self { rest: value };
        let decode = |decoder: &mut Self| {
            let found = decoder.byte()?;
            if found != format {
                return Err(Flaw("a format that this release does not know"));
            }
            let record = read(decoder)?;
            if decoder.rest.is_empty() { Ok(record) } else { Err(Flaw("something behind its end")) }
        };
        decode(&mut decoder).map_err(|Flaw(flaw)| {
            let at = value.len() - decoder.rest.len();
            StoreError::corrupt(format!(
                "the value of {key} has {flaw} at byte {at}: use one release, or restore it from a backup"
            ))
        })
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Flaw> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Flaw("an early end"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// So many bytes.
    ///
    /// # Errors
    /// A [`Flaw`] if there are fewer.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Flaw> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Flaw("an early end"))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// One byte.
    ///
    /// # Errors
    /// A [`Flaw`] if there is none.
    pub fn byte(&mut self) -> Result<u8, Flaw> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number.
    ///
    /// # Errors
    /// A [`Flaw`] if there is none.
    pub fn number(&mut self) -> Result<u64, Flaw> {
        self.array().map(u64::from_be_bytes)
    }

    /// Bytes with their length before them.
    ///
    /// # Errors
    /// A [`Flaw`] if there are none.
    pub fn bytes(&mut self) -> Result<&'a [u8], Flaw> {
        let length = u32::from_be_bytes(self.array()?);
        self.take(usize::try_from(length).map_err(|_| Flaw("too great a length"))?)
    }

    /// A text.
    ///
    /// # Errors
    /// A [`Flaw`] if it is none.
    pub fn text(&mut self) -> Result<&'a str, Flaw> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Flaw("a text that is not UTF-8"))
    }

    /// A name.
    ///
    /// # Errors
    /// A [`Flaw`] if it is none.
    pub fn name(&mut self) -> Result<Name, Flaw> {
        self.text()?.parse().map_err(|_| Flaw("a name that is none"))
    }

    /// As many as there are, each by `one`.
    ///
    /// # Errors
    /// The first [`Flaw`].
    pub fn many<T>(&mut self, one: impl Fn(&mut Self) -> Result<T, Flaw>) -> Result<Vec<T>, Flaw> {
        let count = self.number()?;
        // Not allocated by the count: it may be anything.
        (0..count).map(|_| one(self)).collect()
    }

    /// A flag, and what it stands for by `one`.
    ///
    /// # Errors
    /// A [`Flaw`] in either.
    pub fn optional<T>(&mut self, one: impl FnOnce(&mut Self) -> Result<T, Flaw>) -> Result<Option<T>, Flaw> {
        match self.byte()? {
            0 => Ok(None),
            1 => one(self).map(Some),
            _ => Err(Flaw("a flag that is neither set nor unset")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_written_is_read() {
        let key = Key::from("k");
        let value = Encoder::new(1).number(7).text("é").optional(Some(3), Encoder::byte).finish();
        let read = |value: &[u8]| {
            Decoder::all(&key, value, 1, |from| {
                Ok((from.number()?, from.text()?.to_owned(), from.optional(Decoder::byte)?))
            })
        };
        assert_eq!(read(&value).unwrap(), (7, "é".to_owned(), Some(3)));
        for length in 0..value.len() {
            assert!(read(&value[..length]).unwrap_err().to_string().contains("byte"), "{length}");
        }
        assert!(read(&[&value[..], &[0]].concat()).unwrap_err().to_string().contains("behind its end"));
        assert!(read(&[&[2], &value[1..]].concat()).unwrap_err().to_string().contains("format"));
    }
}
