//! [`Tuple`]: keys made of parts, in an encoding that keeps their order.
//!
//! Comparing two encoded tuples byte by byte gives the same answer as comparing them part by part: bytes sort before
//! text, text before integers, integers before nested tuples; within a kind, in the natural order; a tuple sorts before
//! every longer one that it begins.
//!
//! | part | encoding |
//! | --- | --- |
//! | bytes | `0x10`, content, `0x00` |
//! | text | `0x11`, content as UTF-8, `0x00` |
//! | integer below zero | `0x20 - n`, then n bytes: the value plus 2⁸ⁿ - 1, big-endian, n as small as it can be |
//! | zero | `0x20` |
//! | integer above zero | `0x20 + n`, then n bytes: the value, big-endian, n as small as it can be |
//! | nested tuple | `0x30`, its parts, `0x00` |
//!
//! In content, `0x00` is written `0x01 0x01` and `0x01` is written `0x01 0x02`. So `0x00` only ever ends something, no
//! encoded part begins another, and the keys that start with the bytes of a tuple are just the tuple itself and
//! its extensions: [`Tuple::range`] is a plain prefix.
//!
//! Decoding is strict: there is exactly one encoding of a tuple, and everything else is an error.

use std::fmt;

use bytes::Bytes;

use crate::{Key, Name, Range, StoreError};

const BYTES: u8 = 0x10;
const TEXT: u8 = 0x11;
const ZERO: u8 = 0x20;
const NESTED: u8 = 0x30;
const END: u8 = 0x00;
const ESCAPE: u8 = 0x01;
const ESCAPED_END: u8 = 0x01;
const ESCAPED_ESCAPE: u8 = 0x02;

/// How deep tuples may nest: far more than any key of ours, and little enough that hostile bytes can't exhaust a stack.
const DEPTH_MAX: usize = 16;

/// One part of a [`Tuple`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Any bytes.
    Bytes(Bytes),
    /// Any UTF-8.
    Text(String),
    /// An integer.
    Int(Int),
    /// A tuple in the tuple.
    Tuple(Tuple),
}

/// An integer of a key: everything that fits an `i64` or a `u64`, in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int(i128);

impl From<u64> for Int {
    fn from(value: u64) -> Self {
        Self(value.into())
    }
}

impl From<i64> for Int {
    fn from(value: i64) -> Self {
        Self(value.into())
    }
}

impl TryFrom<Int> for u64 {
    type Error = std::num::TryFromIntError;

    fn try_from(int: Int) -> Result<Self, Self::Error> {
        int.0.try_into()
    }
}

impl TryFrom<Int> for i64 {
    type Error = std::num::TryFromIntError;

    fn try_from(int: Int) -> Result<Self, Self::Error> {
        int.0.try_into()
    }
}

/// A key as a sequence of parts.
///
/// ```
/// use tenure_store::{Part, Tuple};
///
/// let key = Tuple::new().text("member").int(7_u64).key();
/// assert_eq!(Tuple::decode(&key)?.parts()[0], Part::Text("member".into()));
/// assert!(Tuple::new().text("member").range().contains(&key));
/// # Ok::<(), tenure_store::StoreError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple(Vec<Part>);

impl Tuple {
    /// A tuple without parts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// This tuple with a text behind it.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.part(Part::Text(text.into()))
    }

    /// This tuple with a name behind it.
    #[must_use]
    pub fn name(self, name: &Name) -> Self {
        self.text(name.as_str())
    }

    /// This tuple with bytes behind it.
    #[must_use]
    pub fn bytes(self, bytes: impl Into<Bytes>) -> Self {
        self.part(Part::Bytes(bytes.into()))
    }

    /// This tuple with an integer behind it.
    #[must_use]
    pub fn int(self, int: impl Into<Int>) -> Self {
        self.part(Part::Int(int.into()))
    }

    /// This tuple with another one, as one part, behind it.
    #[must_use]
    pub fn nested(self, tuple: Tuple) -> Self {
        self.part(Part::Tuple(tuple))
    }

    /// This tuple with `part` behind it.
    #[must_use]
    pub fn part(mut self, part: Part) -> Self {
        self.0.push(part);
        self
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The parts, in order.
    #[must_use]
    pub fn into_parts(self) -> Vec<Part> {
        self.0
    }

    /// The key that this tuple stands for.
    ///
    /// # Panics
    /// If tuples are nested more than 16 deep, which no key should be.
    #[must_use]
    pub fn key(&self) -> Key {
        let mut out = Vec::with_capacity(16 * self.0.len());
        encode(&self.0, 0, &mut out);
        Key::from(out)
    }

    /// The key of this tuple and of everything that extends it.
    #[must_use]
    pub fn range(&self) -> Range {
        Range::Prefix(self.key())
    }

    /// The tuple that `key` stands for.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when `key` is not exactly what [`Tuple::key`] writes.
    pub fn decode(key: &Key) -> Result<Self, StoreError> {
        let mut decoder = Decoder { rest: key.as_bytes() };
        decoder.parts(0).map(Self).map_err(|flaw| {
            let at = key.len() - decoder.rest.len();
            StoreError::corrupt(format!("key {key} is not an encoded tuple: {flaw} at byte {at}"))
        })
    }
}

impl fmt::Debug for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tuple = f.debug_tuple("");
        for part in &self.0 {
            match part {
                Part::Bytes(bytes) => tuple.field(bytes),
                Part::Text(text) => tuple.field(text),
                Part::Int(Int(int)) => tuple.field(int),
                Part::Tuple(nested) => tuple.field(nested),
            };
        }
        tuple.finish()
    }
}

fn encode(parts: &[Part], depth: usize, out: &mut Vec<u8>) {
    assert!(depth <= DEPTH_MAX, "a key is nested more than {DEPTH_MAX} deep");
    for part in parts {
        match part {
            Part::Bytes(bytes) => encode_content(BYTES, bytes, out),
            Part::Text(text) => encode_content(TEXT, text.as_bytes(), out),
            Part::Int(Int(int)) => encode_int(*int, out),
            Part::Tuple(Tuple(nested)) => {
                out.push(NESTED);
                encode(nested, depth + 1, out);
                out.push(END);
            }
        }
    }
}

fn encode_content(tag: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    for byte in content {
        match *byte {
            END => out.extend([ESCAPE, ESCAPED_END]),
            ESCAPE => out.extend([ESCAPE, ESCAPED_ESCAPE]),
            other => out.push(other),
        }
    }
    out.push(END);
}

fn encode_int(int: i128, out: &mut Vec<u8>) {
    let size = int_size(int.unsigned_abs());
    let bytes = (int + if int < 0 { bias(size) } else { 0 }).to_be_bytes();
    let tag = if int < 0 { ZERO - size } else { ZERO + size };
    out.push(tag);
    out.extend_from_slice(&bytes[bytes.len() - usize::from(size)..]);
}

/// How many bytes hold `magnitude`. At most 8, since an [`Int`] is made of an `i64` or a `u64`.
fn int_size(magnitude: u128) -> u8 {
    (0..=8).find(|size| magnitude < 1_u128 << (8 * size)).expect("an Int fits 64 bits")
}

/// What turns the negative integers of `size` bytes into positive ones, in the same order.
fn bias(size: u8) -> i128 {
    (1_i128 << (8 * size)) - 1
}

struct Decoder<'a> {
    rest: &'a [u8],
}

impl Decoder<'_> {
    fn parts(&mut self, depth: usize) -> Result<Vec<Part>, &'static str> {
        let mut parts = Vec::new();
        while let Some(tag) = self.next() {
            parts.push(match tag {
                END if depth > 0 => return Ok(parts),
                BYTES => Part::Bytes(self.content()?.into()),
                TEXT => Part::Text(String::from_utf8(self.content()?).map_err(|_| "text that is not UTF-8")?),
                NESTED if depth == DEPTH_MAX => return Err("too deep a tuple"),
                NESTED => Part::Tuple(Tuple(self.parts(depth + 1)?)),
                tag if tag.abs_diff(ZERO) <= 8 => Part::Int(self.int(tag)?),
                _ => return Err("an unknown tag"),
            });
        }
        if depth == 0 { Ok(parts) } else { Err("a nested tuple without an end") }
    }

    fn content(&mut self) -> Result<Vec<u8>, &'static str> {
        let mut content = Vec::new();
        loop {
            content.push(match self.next().ok_or("content without an end")? {
                END => return Ok(content),
                ESCAPE => match self.next() {
                    Some(ESCAPED_END) => END,
                    Some(ESCAPED_ESCAPE) => ESCAPE,
                    _ => return Err("an unknown escape"),
                },
                other => other,
            });
        }
    }

    fn int(&mut self, tag: u8) -> Result<Int, &'static str> {
        let size = tag.abs_diff(ZERO);
        let (bytes, rest) = self.rest.split_at_checked(usize::from(size)).ok_or("an integer cut short")?;
        self.rest = rest;
        let raw = bytes.iter().fold(0_i128, |sum, byte| (sum << 8) | i128::from(*byte));
        let int = if tag < ZERO { raw - bias(size) } else { raw };
        if int_size(int.unsigned_abs()) != size {
            return Err("an integer longer than it need be");
        }
        if int < i128::from(i64::MIN) {
            return Err("an integer below what fits 64 bits");
        }
        Ok(Int(int))
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
}
