//! [`Head`]: a server's record, which every commit of a consumer checks and rewrites.
//!
//! It is a lane in itself: each commit leaves a mark, and the last few marks are kept. Whoever lost the answer to its commit reads the head. Its mark there: it happened.
//! The mark of the head that it was built on there, and its own not: it did not, and never will, since it checked that head's version.

use bytes::Bytes;
use tenure_cluster::SessionId;
use tenure_store::{
    EntryId, Key, StoreError,
    record::{Decoder, Encoder, Flaw},
};

use crate::parcel::Attempt;

const FORMAT: u8 = 1;

/// How many marks are kept: as many foreign commits may come in between, and an outcome can still be told.
const MARKS_MAX: usize = 8;

/// How many messages are run one by one after a consumer has gone: as many as one of its batches would rarely exceed.
pub(crate) const SUSPECTS: u64 = 32;

/// Who does the locked work of the message at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) session: SessionId,
    /// Counts the claims of the server.
    pub(crate) token: u64,
}

/// Who takes priority messages from the store, and how carefully.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rush {
    pub(crate) session: SessionId,
    /// How many messages are still to be run one by one, since one of them may have killed whoever took them before.
    pub(crate) suspects: u64,
    /// The entry whose first message is being run alone: if the session goes, that message may be why.
    pub(crate) alone: Option<EntryId>,
}

/// A server's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Under which schema the state is stored.
    pub(crate) schema: u32,
    /// How many messages were ever applied.
    pub(crate) applied: u64,
    /// How many dead letters there ever were.
    pub(crate) died: u64,
    /// Marks of the last commits, the newest last.
    pub(crate) marks: Vec<u64>,
    /// The session that takes messages from the queue.
    pub(crate) owner: Option<SessionId>,
    /// The entry of the queue that `cursor`, `alone`, `claim` and `attempts` speak of, if they say anything. It stays the first though an entry that sorts ahead of it
    /// becomes visible late.
    pub(crate) in_hand: Option<EntryId>,
    /// How many of its messages are done.
    pub(crate) cursor: u64,
    /// How many messages are still to be run one by one, since one of them may have killed the last consumer.
    pub(crate) suspects: u64,
    /// Whether the message at the cursor is being run alone, by the owner: if that one goes, the message may be why.
    pub(crate) alone: bool,
    /// Who takes priority messages; the owner, if nobody is named.
    pub(crate) rush: Option<Rush>,
    /// Who does the locked work of the message at the cursor, and how that failed before.
    pub(crate) claim: Option<Claim>,
    /// How many claims there ever were.
    pub(crate) claims: u64,
    /// How the message at the cursor failed before, beyond what its parcel says.
    pub(crate) attempts: Vec<Attempt>,
    /// Why no messages are taken, if none are to be.
    pub(crate) stopped: Option<String>,
    /// When something is to be swept, in milliseconds since 1970: each is a key of `due`.
    pub(crate) sweeps: Vec<u64>,
}

impl Head {
    /// A server that does not exist yet.
    pub(crate) fn new(schema: u32) -> Self {
        Self {
            schema,
            applied: 0,
            died: 0,
            marks: Vec::new(),
            owner: None,
            in_hand: None,
            cursor: 0,
            suspects: 0,
            alone: false,
            rush: None,
            claim: None,
            claims: 0,
            attempts: Vec::new(),
            stopped: None,
            sweeps: Vec::new(),
        }
    }

    /// A session claims the message at the cursor.
    pub(crate) fn take_claim(&mut self, session: SessionId) {
        self.claims += 1;
        self.claim = Some(Claim { session, token: self.claims });
    }

    /// Leaves the mark of a commit.
    pub(crate) fn mark(&mut self, mark: u64) {
        if self.marks.len() == MARKS_MAX {
            self.marks.remove(0);
        }
        self.marks.push(mark);
    }

    pub(crate) fn encode(&self) -> Bytes {
        Encoder::new(FORMAT)
            .number(self.schema.into())
            .number(self.applied)
            .number(self.died)
            .many(self.marks.iter(), |into, mark| into.number(*mark))
            .optional(self.owner, |into, owner| into.array(owner.to_bytes()))
            .optional(self.in_hand.as_ref(), |into, id| into.bytes(id.as_bytes()))
            .number(self.cursor)
            .number(self.suspects)
            .byte(self.alone.into())
            .optional(self.rush.as_ref(), |into, rush| {
                let into = into.array(rush.session.to_bytes()).number(rush.suspects);
                into.optional(rush.alone.as_ref(), |into, id| into.bytes(id.as_bytes()))
            })
            .optional(self.claim, |into, claim| into.array(claim.session.to_bytes()).number(claim.token))
            .number(self.claims)
            .many(self.attempts.iter(), |into, attempt| {
                into.number(crate::parcel::millis(attempt.at)).text(&attempt.node).text(&attempt.error)
            })
            .optional(self.stopped.as_deref(), Encoder::text)
            .many(self.sweeps.iter(), |into, at| into.number(*at))
            .finish()
    }

    pub(crate) fn decode(key: &Key, value: &[u8]) -> Result<Self, StoreError> {
        Decoder::all(key, value, FORMAT, |from| {
            Ok(Self {
                schema: u32::try_from(from.number()?).map_err(|_| Flaw::new("too great a schema"))?,
                applied: from.number()?,
                died: from.number()?,
                marks: from.many(Decoder::number)?,
                owner: from.optional(|from| from.array().map(SessionId::from_bytes))?,
                in_hand: from.optional(entry)?,
                cursor: from.number()?,
                suspects: from.number()?,
                alone: from.byte()? != 0,
                rush: from.optional(|from| {
                    let session = SessionId::from_bytes(from.array()?);
                    Ok(Rush { session, suspects: from.number()?, alone: from.optional(entry)? })
                })?,
                claim: from.optional(|from| {
                    let session = SessionId::from_bytes(from.array()?);
                    Ok(Claim { session, token: from.number()? })
                })?,
                claims: from.number()?,
                attempts: from.many(|from| {
                    let at = std::time::Duration::from_millis(from.number()?);
                    Ok(Attempt { at, node: from.text()?.to_owned(), error: from.text()?.to_owned() })
                })?,
                stopped: from.optional(|from| from.text().map(str::to_owned))?,
                sweeps: from.many(Decoder::number)?,
            })
        })
    }
}

fn entry(from: &mut Decoder<'_>) -> Result<EntryId, Flaw> {
    from.bytes().map(|id| EntryId::new(Bytes::copy_from_slice(id)))
}

/// What became of a commit whose answer was lost, as the head tells that is there now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It happened.
    Landed,
    /// It did not, and never will.
    Never,
    /// Too much has happened since.
    Forgotten,
}

/// Looks for the commit of `mark`, which was built on a head whose last mark was `base`, in the marks that are there now. The head is another than that one.
pub(crate) fn fate(now: Option<&Head>, mark: u64, base: Option<u64>) -> Fate {
    let Some(now) = now else { return Fate::Forgotten };
    if now.marks.contains(&mark) {
        return Fate::Landed;
    }
    match base {
        Some(base) if now.marks.contains(&base) => Fate::Never,
        _ => Fate::Forgotten,
    }
}
