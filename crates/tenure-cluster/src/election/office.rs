//! [`Office`]: what is stored of an election.
//!
//! ```text
//! offset  bytes  what
//! 0       1      format, 1
//! 1       8      term, big-endian
//! 9       16     session of the holder; zeros if the office is vacant
//! 25      ...    who holds it, and the last terms
//! ```
//!
//! The first 25 bytes are a promise: SQL functions read them.

use std::{fmt, time::Duration};

use bytes::Bytes;
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::{Cause, SessionId, member::millis};

/// How many terms an office remembers.
pub(crate) const HISTORY_MAX: usize = 16;

/// Counts the holders of one election, from 1: a later one has a greater term, and no term is used twice. The fencing token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who holds an office.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The node.
    pub node: Name,
    /// Its session; without it, the office is as good as vacant.
    pub session: SessionId,
    /// Since when, by the wall clock of whoever wrote it, since 1970.
    pub since: Duration,
    /// How often its session had been renewed by then, as far as was known: renewals within the term count from here.
    pub renewals: u64,
}

/// A term that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastTerm {
    /// Which.
    pub term: Term,
    /// Who held it.
    pub holder: Holder,
    /// Until when, by the wall clock of whoever noticed, since 1970.
    pub until: Duration,
    /// Why it ended.
    pub end: TermEnd,
}

/// Why a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TermEnd {
    /// The leader resigned.
    Resigned,
    /// The leader handed over to a successor that it named.
    HandedOver,
    /// An operator deposed the leader.
    Deposed,
    /// The leader's session ended; why, if its member's record still tells.
    SessionEnded(Option<Cause>),
}

impl fmt::Display for TermEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resigned => f.write_str("resigned"),
            Self::HandedOver => f.write_str("handed over"),
            Self::Deposed => f.write_str("deposed"),
            Self::SessionEnded(None) => f.write_str("session ended"),
            Self::SessionEnded(Some(cause)) => write!(f, "session ended: {cause}"),
        }
    }
}

/// The state of an election.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Office {
    /// The present term, or the last one if the office is vacant; 0 before the first.
    pub(crate) term: u64,
    pub(crate) holder: Option<Holder>,
    /// The last terms that are over, the newest last.
    pub(crate) history: Vec<PastTerm>,
}

impl Office {
    const FORMAT: u8 = 1;
    const VACANT: SessionId = SessionId::NONE;

    /// The office in its next term. The present one, if any, ends like this.
    pub(crate) fn pass_to(&self, holder: Holder, end: TermEnd) -> Self {
        let until = holder.since;
        let ended = self.vacate(end, until);
        Self { term: ended.term + 1, holder: Some(holder), ..ended }
    }

    /// The office without a holder.
    pub(crate) fn vacate(&self, end: TermEnd, until: Duration) -> Self {
        let mut history = self.history.clone();
        if let Some(holder) = self.holder.clone() {
            history.push(PastTerm { term: Term(self.term), holder, until, end });
            history.drain(..history.len().saturating_sub(HISTORY_MAX));
        }
        Self { term: self.term, holder: None, history }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let session = self.holder.as_ref().map_or(Self::VACANT, |holder| holder.session);
        Encoder::new(Self::FORMAT)
            .number(self.term)
            .array(session.to_bytes())
            .optional(self.holder.as_ref(), |into, holder| {
                into.text(holder.node.as_str()).number(millis(holder.since)).number(holder.renewals)
            })
            .many(self.history.iter(), |into, past| {
                let (end, cause) = match past.end {
                    TermEnd::Resigned => (0, None),
                    TermEnd::HandedOver => (1, None),
                    TermEnd::Deposed => (2, None),
                    TermEnd::SessionEnded(cause) => (3, cause),
                };
                into.number(past.term.0)
                    .array(past.holder.session.to_bytes())
                    .text(past.holder.node.as_str())
                    .number(millis(past.holder.since))
                    .number(past.holder.renewals)
                    .number(millis(past.until))
                    .byte(end)
                    .optional(cause, |into, cause| into.byte(cause.code()))
            })
            .finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, Self::FORMAT, |from| {
            let (term, session) = (from.number()?, SessionId::from_bytes(from.array()?));
            let holder = from.optional(|from| {
                let (node, since) = (from.name()?, Duration::from_millis(from.number()?));
                Ok(Holder { node, session, since, renewals: from.number()? })
            })?;
            if holder.is_none() != (session == Self::VACANT) {
                return Err(Flaw::new("a session without a holder, or the reverse"));
            }
            let history = from.many(|from| {
                let term = Term(from.number()?);
                let session = SessionId::from_bytes(from.array()?);
                let node = from.name()?;
                let since = Duration::from_millis(from.number()?);
                let renewals = from.number()?;
                let until = Duration::from_millis(from.number()?);
                let end = from.byte()?;
                let cause = from.optional(|from| Cause::from_code(from.byte()?))?;
                let end = match (end, cause) {
                    (0, None) => TermEnd::Resigned,
                    (1, None) => TermEnd::HandedOver,
                    (2, None) => TermEnd::Deposed,
                    (3, cause) => TermEnd::SessionEnded(cause),
                    _ => return Err(Flaw::new("an unknown end of a term")),
                };
                Ok(PastTerm { term, holder: Holder { node, session, since, renewals }, until, end })
            })?;
            Ok(Self { term, holder, history })
        })
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    fn holder(since: u64) -> Holder {
        let session = SessionId::random(&Env::system());
        Holder { node: "n".parse().unwrap(), session, since: Duration::from_secs(since), renewals: 7 }
    }

    #[test]
    fn terms_count_holders_and_are_remembered() {
        let ends = [
            TermEnd::Resigned,
            TermEnd::HandedOver,
            TermEnd::Deposed,
            TermEnd::SessionEnded(None),
            TermEnd::SessionEnded(Some(Cause::LastWill)),
        ];
        let mut office = Office::default();
        for (number, end) in (1..).zip(ends.into_iter().cycle()).take(40) {
            office = office.pass_to(holder(number), end);
            assert_eq!(office.term, number);
            assert_eq!(Office::decode(&Key::from("k"), &office.encode()).unwrap(), office);
        }
        assert_eq!(office.history.len(), HISTORY_MAX);
        assert_eq!(office.history.last().unwrap().term, Term(39));
        let vacant = office.vacate(TermEnd::Deposed, Duration::from_secs(99));
        assert_eq!((vacant.term, vacant.holder.clone()), (40, None));
        assert_eq!(vacant.history.last().unwrap().end, TermEnd::Deposed);
        assert_eq!(Office::decode(&Key::from("k"), &vacant.encode()).unwrap(), vacant);
        assert_eq!(vacant.pass_to(holder(41), TermEnd::Resigned).history, vacant.history);
    }

    #[test]
    fn what_sql_reads_stays_where_it_is() {
        let office = Office { term: 258, holder: Some(holder(1)), history: vec![] };
        let value = office.encode();
        assert_eq!(value[..9], [1, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(value[9..25], office.holder.unwrap().session.to_bytes());
        assert_eq!(Office::default().encode()[9..25], [0; 16]);
    }
}
