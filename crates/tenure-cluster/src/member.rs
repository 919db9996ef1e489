//! [`Member`]: a node's public record.

use std::{collections::BTreeMap, fmt, time::Duration};

use bytes::Bytes;
use tenure_store::{
    Key, Name, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::{Owner, SessionId, Settings};

/// A node as others see it. Times are the wall clocks of whoever wrote them: for people to read, never to decide by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The node.
    pub node: Name,
    /// Its session, or its last one.
    pub session: SessionId,
    /// Counts the sessions of this node, from 1.
    pub incarnation: u64,
    /// Counts the changes of this record, from 1.
    pub revision: u64,
    /// Whether it is there.
    pub state: MemberState,
    /// Where other nodes reach it, if they can.
    pub address: Option<String>,
    /// What it says of itself.
    pub labels: BTreeMap<String, String>,
    /// The version of its program.
    pub version: String,
    /// How long its session lives without being renewed.
    pub ttl: Duration,
    /// The process that owns the session.
    pub owner: Owner,
    /// When the session began, since 1970.
    pub joined_at: Duration,
    /// When this record was changed last, since 1970.
    pub changed_at: Duration,
}

/// Whether a member is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberState {
    /// It renews its session.
    Live,
    /// It has not renewed its session for the liveness window. It may come back.
    Suspect,
    /// Its session has ended, for good.
    Gone(Cause),
    /// It was gone for so long that its record was removed.
    Forgotten,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// The node said goodbye.
    Left,
    /// A warden saw it unrenewed for its whole ttl.
    Expired,
    /// Its process was proven dead by somebody on the same machine.
    Died,
    /// Its last will was carried out.
    LastWill,
    /// Another process took the node's name over.
    TakenOver,
}

impl Cause {
    const ALL: [Cause; 5] = [Self::Left, Self::Expired, Self::Died, Self::LastWill, Self::TakenOver];

    /// The cause in one word, for logs and metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Expired => "expired",
            Self::Died => "died",
            Self::LastWill => "last_will",
            Self::TakenOver => "taken_over",
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Left => 0,
            Self::Expired => 1,
            Self::Died => 2,
            Self::LastWill => 3,
            Self::TakenOver => 4,
        }
    }

    pub(crate) fn from_code(code: u8) -> Result<Self, Flaw> {
        Self::ALL.into_iter().find(|cause| cause.code() == code).ok_or(Flaw::new("an unknown cause"))
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for MemberState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("live"),
            Self::Suspect => f.write_str("suspect"),
            Self::Gone(cause) => write!(f, "gone ({cause})"),
            Self::Forgotten => f.write_str("forgotten"),
        }
    }
}

/// In one line: who, since when, where.
impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, session {}, {}", self.node, self.state, self.session, self.owner)?;
        self.address.as_ref().map_or(Ok(()), |address| write!(f, ", address {address}"))
    }
}

impl Member {
    const FORMAT: u8 = 1;

    /// The record of a node that joins now; `before` is the one it replaces.
    pub(crate) fn joining(
        settings: &Settings,
        session: SessionId,
        owner: Owner,
        now: Duration,
        before: Option<&Member>,
    ) -> Self {
        Self {
            node: settings.node.clone(),
            session,
            incarnation: before.map_or(1, |before| before.incarnation + 1),
            revision: before.map_or(1, |before| before.revision + 1),
            state: MemberState::Live,
            address: settings.address.clone(),
            labels: settings.labels.clone(),
            version: settings.version.clone(),
            ttl: settings.ttl,
            owner,
            joined_at: now,
            changed_at: now,
        }
    }

    /// The record after a change of its state.
    pub(crate) fn turned(&self, state: MemberState, now: Duration) -> Self {
        Self { state, changed_at: now, revision: self.revision + 1, ..self.clone() }
    }

    /// Whether its session may be there.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.state, MemberState::Live | MemberState::Suspect)
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut owner = Vec::new();
        self.owner.encode(&mut owner);
        let state = match self.state {
            MemberState::Live => 0,
            MemberState::Suspect => 1,
            MemberState::Forgotten => 2,
            MemberState::Gone(cause) => 3 + cause.code(),
        };
        Encoder::new(Self::FORMAT)
            .text(self.node.as_str())
            .array(self.session.to_bytes())
            .number(self.incarnation)
            .number(self.revision)
            .byte(state)
            .optional(self.address.as_ref(), |into, address| into.text(address))
            .many(self.labels.iter(), |into, (label, value)| into.text(label).text(value))
            .text(&self.version)
            .number(millis(self.ttl))
            .bytes(&owner)
            .number(millis(self.joined_at))
            .number(millis(self.changed_at))
            .finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, Self::FORMAT, |from| {
            Ok(Self {
                node: from.name()?,
                session: SessionId::from_bytes(from.array()?),
                incarnation: from.number()?,
                revision: from.number()?,
                state: match from.byte()? {
                    0 => MemberState::Live,
                    1 => MemberState::Suspect,
                    2 => MemberState::Forgotten,
                    gone => MemberState::Gone(Cause::from_code(gone - 3)?),
                },
                address: from.optional(|from| from.text().map(str::to_owned))?,
                labels: from
                    .many(|from| Ok((from.text()?.to_owned(), from.text()?.to_owned())))?
                    .into_iter()
                    .collect(),
                version: from.text()?.to_owned(),
                ttl: Duration::from_millis(from.number()?),
                owner: from.bytes().and_then(owner)?,
                joined_at: Duration::from_millis(from.number()?),
                changed_at: Duration::from_millis(from.number()?),
            })
        })
    }
}

fn owner(mut bytes: &[u8]) -> Result<Owner, Flaw> {
    Owner::decode(&mut bytes).filter(|_| bytes.is_empty()).ok_or(Flaw::new("no owner"))
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    #[test]
    fn a_member_is_read_as_it_was_written() {
        let mut settings = Settings::new("c", "n").unwrap();
        settings.labels.insert("zone".into(), "a".into());
        let id = SessionId::random(&Env::system());
        let first = Member::joining(&settings, id, Owner::this_process(None), Duration::from_secs(7), None);
        let key = Key::from("k");
        let states = Cause::ALL.into_iter().map(MemberState::Gone).chain([
            MemberState::Live,
            MemberState::Suspect,
            MemberState::Forgotten,
        ]);
        for state in states {
            let member = first.turned(state, Duration::from_secs(9));
            assert_eq!(Member::decode(&key, &member.encode()).unwrap(), member);
            assert_eq!(member.revision, 2);
        }
        let next = Member::joining(&settings, id, first.owner.clone(), Duration::ZERO, Some(&first));
        assert_eq!((next.incarnation, next.revision), (2, 2));
        assert!(Member::decode(&key, &first.encode()[1..]).is_err());
    }
}
