//! [`Offer`], [`Run`], [`Post`]: what nodes and the placer tell each other, and under which keys.
//!
//! All are among the belongings of the node's session, so that they end with it. `("place", "beacon")` is the
//! placer's own.
//!
//! | key, below `("own", session)` | holds | written by |
//! | --- | --- | --- |
//! | `("offer", page)` | which singletons the node knows, what load they are, whether it may run them | the node |
//! | `("run", page)` | which of them it leads, in which term | the node |
//! | `("post", page)` | which of them it is to run, or to hand over, and to whom | the placer, guarded by its office |

use tenure_cluster::{Keys, SessionId};
use tenure_store::{
    Key, Name, Tuple,
    record::{Decoder, Encoder, Flaw},
};

/// One entry of a [`Book`](super::book::Book).
pub(crate) trait Record: Clone + PartialEq + Send + Sync + 'static {
    /// Where they are, among the belongings of a session.
    const WORD: &'static str;
    fn encode(&self, into: Encoder) -> Encoder;
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw>;
}

/// A singleton that a node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    /// In thousandths.
    pub(crate) load: u64,
    /// Whether the node may run it, by its labels.
    pub(crate) fit: bool,
}

/// A singleton that a node leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) term: u64,
}

/// A singleton that a node is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Post {
    /// Who is to have it instead, as soon as that one stands.
    pub(crate) heir: Option<Heir>,
}

/// A node that is to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heir {
    pub(crate) node: Name,
    pub(crate) session: SessionId,
}

impl Record for Offer {
    const WORD: &'static str = "offer";

    fn encode(&self, into: Encoder) -> Encoder {
        into.number(self.load).byte(u8::from(self.fit))
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw> {
        let load = from.number()?;
        match from.byte()? {
            fit @ (0 | 1) => Ok(Self { load, fit: fit == 1 }),
            _ => Err(Flaw::new("a flag that is neither set nor unset")),
        }
    }
}

impl Record for Run {
    const WORD: &'static str = "run";

    fn encode(&self, into: Encoder) -> Encoder {
        into.number(self.term)
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw> {
        Ok(Self { term: from.number()? })
    }
}

impl Record for Post {
    const WORD: &'static str = "post";

    fn encode(&self, into: Encoder) -> Encoder {
        into.optional(self.heir.as_ref(), |into, heir| {
            into.text(heir.node.as_str()).array(heir.session.to_bytes())
        })
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, Flaw> {
        let heir = from.optional(|from| {
            Ok(Heir { node: from.name()?, session: SessionId::from_bytes(from.array()?) })
        })?;
        Ok(Self { heir })
    }
}

/// Where the records of one kind are, of one session.
pub(crate) fn prefix<R: Record>(keys: &Keys, session: SessionId) -> Tuple {
    keys.belongings(session).text(R::WORD)
}

/// What the placer writes now and then, to show that it acts.
pub(crate) fn beacon(keys: &Keys) -> Key {
    keys.area("place").text("beacon").key()
}
