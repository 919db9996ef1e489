//! What a node and the executor of its will say to each other.
//!
//! ```text
//! node -> executor   length u32 | format u8 | kind u8 | body     kind 1, keep: number u64, url, cluster, session, owner
//!                                                                 kind 2, revoke: nothing
//! executor -> node   format u8 | number u64                      the will of this number is kept
//! ```
//! Numbers are big-endian. A message is written at once and whole ([`BYTES_MAX`]), so that one half of it is never seen. Reading is strict: whatever
//! was not written like this is an error.

use std::io::{self, Read};

use super::{SecretUrl, Will};
use crate::{Owner, SessionId};

/// The longest message: what Linux writes to a pipe in one piece or not at all (`PIPE_BUF`).
pub(super) const BYTES_MAX: usize = 4096;

/// The bytes of an answer.
pub(super) const ANSWER_BYTES: usize = 9;

const FORMAT: u8 = 1;
const KEEP: u8 = 1;
const REVOKE: u8 = 2;

/// Whatever is in it besides the URL: lengths, kind, number, cluster, session, owner.
const REST_MAX: usize =
    4 + 2 + 8 + 2 + 1 + tenure_store::Name::BYTES_MAX + SessionId::BYTES + Owner::BYTES_MAX;
const _: () = assert!(REST_MAX + SecretUrl::BYTES_MAX <= BYTES_MAX, "a will fits one message");

/// What a node tells the executor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// Keep this will instead of any other, and answer with the number.
    Keep { number: u64, will: Will },
    /// Forget the will, and end.
    Revoke,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("could not be read: {0}")]
    Input(#[from] io::Error),
    #[error("is no last will: it has {0}")]
    Flaw(&'static str),
}

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0, 0, 0, 0, FORMAT];
        match self {
            Self::Revoke => out.push(REVOKE),
            Self::Keep { number, will: Will { url, cluster, session, owner } } => {
                out.push(KEEP);
                out.extend(number.to_be_bytes());
                let url = url.0.as_bytes();
                #[allow(clippy::cast_possible_truncation, reason = "both are bounded where they are made")]
                let lengths = (url.len() as u16, cluster.as_str().len() as u8);
                out.extend(lengths.0.to_be_bytes());
                out.extend(url);
                out.push(lengths.1);
                out.extend(cluster.as_str().as_bytes());
                out.extend(session.to_bytes());
                owner.encode(&mut out);
            }
        }
        debug_assert!(out.len() <= BYTES_MAX, "the parts are bounded");
        #[allow(clippy::cast_possible_truncation, reason = "a message has at most 4096 bytes")]
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_be_bytes());
        out
    }

    /// The next message; `None` at the end of the input.
    pub(super) fn read(input: &mut impl Read) -> Result<Option<Self>, Unreadable> {
        let mut length = [0; 4];
        let Some(()) = read_whole(input, &mut length)? else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        if length > BYTES_MAX - 4 {
            return Err(Unreadable::Flaw("too great a length"));
        }
        let mut body = vec![0; length];
        read_whole(input, &mut body)?.ok_or(CUT)?;
        Self::decode(&body).map(Some)
    }

    fn decode(body: &[u8]) -> Result<Self, Unreadable> {
        let (format, body) = body.split_first().ok_or(CUT)?;
        if *format != FORMAT {
            return Err(Unreadable::Flaw("a format of another release"));
        }
        match body.split_first().ok_or(CUT)? {
            (&REVOKE, []) => Ok(Self::Revoke),
            (&KEEP, body) => keep(body).ok_or(Unreadable::Flaw("parts that are not what a node writes")),
            _ => Err(Unreadable::Flaw("an unknown kind")),
        }
    }
}

const CUT: Unreadable = Unreadable::Flaw("an early end");

fn keep(body: &[u8]) -> Option<Message> {
    let (number, rest) = body.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::from(u16::from_be_bytes(*length));
    let (url, rest) = rest.split_at_checked(length).filter(|_| length <= SecretUrl::BYTES_MAX)?;
    let (length, rest) = rest.split_first()?;
    let (cluster, rest) = rest.split_at_checked(usize::from(*length))?;
    let (session, mut rest) = rest.split_first_chunk()?;
    let owner = Owner::decode(&mut rest).filter(|_| rest.is_empty())?;
    let url = SecretUrl(std::str::from_utf8(url).ok()?.to_owned());
    let cluster = std::str::from_utf8(cluster).ok()?.parse().ok()?;
    let will = Will { url, cluster, session: SessionId::from_bytes(*session), owner };
    Some(Message::Keep { number: u64::from_be_bytes(*number), will })
}

/// Fills the buffer; `None` if the input ends before its first byte.
fn read_whole(input: &mut impl Read, buffer: &mut [u8]) -> Result<Option<()>, Unreadable> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(CUT),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(()))
}

/// The answer that the will of this number is kept.
pub(super) fn answer(number: u64) -> [u8; ANSWER_BYTES] {
    let mut out = [FORMAT; ANSWER_BYTES];
    out[1..].copy_from_slice(&number.to_be_bytes());
    out
}

/// The number in an answer; `None` if it is none.
pub(super) fn answered(answer: &[u8; ANSWER_BYTES]) -> Option<u64> {
    let (format, number) = answer.split_first()?;
    (*format == FORMAT).then(|| number.try_into().map(u64::from_be_bytes).ok()).flatten()
}

#[cfg(test)]
pub(super) mod tests {
    use tenure_store::Env;

    use super::*;

    pub(in crate::will) fn will(url: &str, owner: &Owner) -> Will {
        let session = SessionId::random(&Env::system());
        Will {
            url: SecretUrl(url.to_owned()),
            cluster: "orders".parse().unwrap(),
            session,
            owner: owner.clone(),
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Message>, String> {
        Message::read(&mut &bytes[..]).map_err(|error| error.to_string())
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let longest = Will {
            url: SecretUrl("x".repeat(SecretUrl::BYTES_MAX)),
            cluster: "c".repeat(255).parse().unwrap(),
            ..will("", &Owner::this_process(Some(&"m".repeat(255))))
        };
        let keep = Message::Keep { number: 7, will: will("sqlite:a", &Owner::this_process(None)) };
        let messages = [keep, Message::Keep { number: u64::MAX, will: longest }, Message::Revoke];
        let bytes: Vec<u8> = messages.iter().flat_map(Message::encode).collect();
        assert!(messages[1].encode().len() <= BYTES_MAX);
        let mut input = &bytes[..];
        for message in messages {
            assert_eq!(Message::read(&mut input).unwrap(), Some(message));
        }
        assert_eq!(Message::read(&mut input).unwrap(), None);
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_refused() {
        let whole = Message::Keep { number: 7, will: will("sqlite:a", &Owner::this_process(None)) }.encode();
        for length in 1..whole.len() {
            assert!(read(&whole[..length]).unwrap_err().contains("early end"), "{length}");
        }
        // Whole frames with less, or more, in them than there should be.
        for length in 4..whole.len() {
            let mut short = whole[..length].to_vec();
            short[..4].copy_from_slice(&u32::try_from(length - 4).unwrap().to_be_bytes());
            assert!(read(&short).is_err(), "{length}");
        }
        for mut longer in [whole.clone(), Message::Revoke.encode()] {
            longer.push(0);
            let length = u32::try_from(longer.len() - 4).unwrap();
            longer[..4].copy_from_slice(&length.to_be_bytes());
            assert!(read(&longer).is_err());
        }
    }

    #[test]
    fn garbage_is_refused_before_memory_is_taken() {
        assert!(read(&[0xff; 5000]).unwrap_err().contains("too great a length"));
        assert!(read(b"GET / HTTP/1.1\r\n\r\n").unwrap_err().contains("too great a length"));
        assert!(read(&[0, 0, 0, 2, 9, 2]).unwrap_err().contains("another release"));
        assert!(read(&[0, 0, 0, 2, 1, 9]).unwrap_err().contains("unknown kind"));
        assert!(read(&[0, 0, 0, 0]).unwrap_err().contains("early end"));
        let good = Message::Keep { number: 7, will: will("sqlite:a", &Owner::this_process(None)) }.encode();
        let url = 4 + 2 + 8 + 2;
        let cluster = url + "sqlite:a".len() + 1;
        for (at, byte) in [(url, 0xff), (cluster, b'\n'), (url - 2, 0xff)] {
            let mut bad = good.clone();
            bad[at] = byte;
            assert!(read(&bad).unwrap_err().contains("parts"), "{at}");
        }
        let long = will(&"x".repeat(SecretUrl::BYTES_MAX + 1), &Owner::unknown());
        let long = Message::Keep { number: 7, will: long }.encode();
        assert!(read(&long).unwrap_err().contains("parts"), "though it fits a message");
    }

    #[test]
    fn answers_are_read_as_they_were_written() {
        assert_eq!(answered(&answer(77)), Some(77));
        assert_eq!(answered(b"running 1"), None);
    }
}
