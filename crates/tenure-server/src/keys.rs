//! [`ServerKeys`]: every key of a server. No other module knows how they are made.
//!
//! All start with `("tenure", cluster)`. `kind` and `id` name the server, `shard` is a number below 16 that follows from `id`.
//!
//! | key | holds | written by | how many | gone when |
//! | --- | --- | --- | --- | --- |
//! | `("head", kind, id)` | the server's record: what every consumer's commit checks and rewrites | consumers, operators | one a server | deleted |
//! | `("state", kind, id, part, ...)` | the state, in parts | consumers | as the state has parts | the part goes, or the server |
//! | `("queue", kind, id)`, a list | bundles of messages, in order | senders | up to the queue's limit | consumed |
//! | `("urgent", kind, id)`, a list | the same, of priority messages | senders | as the queue | consumed |
//! | `("piece", kind, id, bundle, n)` | pieces of a bundle or a kept answer that is too large for one value, or of an answer that was given later; or that one is to be given | senders, consumers, whoever answers | as the queue, and as answers are kept | consumed, or with the answer's key |
//! | `("full", kind, id)` | that the queue is at its limit | senders | at most one a server | the queue is half empty |
//! | `("effect", kind, id)`, a list | durable effects that are not done; they outlive their server | consumers | as many as are not done | done |
//! | `("effect", kind, id, effect, n)` | pieces of an effect that is too large for one value | consumers | as many as are not done | done |
//! | `("timer", kind, id, timer, time)` | a message for later | consumers, senders | one a timer | due, or cancelled |
//! | `("owed", kind, id, session, slot)` | that a call is to be answered later, and until when its caller waits | consumers | one a call | answered, or a minute or two after its caller has given up |
//! | `("once", kind, id, key)` | the answer to a call with an idempotency key | consumers | one a key | kept for as long as is set |
//! | `("dead", kind, id, number)` | a dead letter | consumers | one a dead letter | replayed, dropped, or kept for as long as is set |
//! | `("work", kind, shard, id)` | that the server has messages or effects | senders, consumers | one a server with work | nothing is left |
//! | `("due", kind, shard, time, id, timer)` | when a timer is due, or something is to be swept (timer 0) | with the timer | one a timer, and a few a server | due, or cancelled |
//! | `("consumers", kind)` | changes whenever a node begins or ceases to consume | the node | one a kind | never |
//!
//! Belongings of a node's session: `("own", session, "send", n)`, the lanes of what it sends; `("own", session,
//! "reply", mark, n)`, answers that it has not read yet; `("own", session, "births", n)`, the lanes of first commits
//! to servers; `("own", session, "consuming", 0)`, the lane of what it says of the kinds that it consumes; `("own", session, "consumer", kind)`, that it consumes, and for which schema.

use tenure_cluster::{Keys, SessionId};
use tenure_store::{Commit, Key, Name, Part, Range, StoreError, Tuple};

use crate::flaws::Flaws;

/// Over how many parts the servers of a kind are spread. Every node must know the same; more would only cost watches.
pub(crate) const SHARDS: u64 = 16;

/// The timer id that stands for sweeping.
pub(crate) const SWEEP: u64 = 0;

/// The number of a piece that stands for an answer that is still to be given.
pub(crate) const LATER: u64 = u64::MAX;

/// Makes the keys of one server.
#[derive(Clone, Debug)]
pub(crate) struct ServerKeys {
    keys: Keys,
    kind: Name,
    id: Name,
    /// Made once, since every commit needs them.
    pub(crate) head: Key,
    pub(crate) queue: Key,
    pub(crate) urgent: Key,
    pub(crate) work: Key,
    pub(crate) full: Key,
    pub(crate) effects: Key,
}

impl ServerKeys {
    pub(crate) fn new(keys: &Keys, kind: &Name, id: &Name) -> Self {
        let of = |word: &str| keys.area(word).name(kind).name(id).key();
        Self {
            head: of("head"),
            queue: of("queue"),
            urgent: of("urgent"),
            full: of("full"),
            effects: of("effect"),
            work: KindKeys::new(keys, kind).work(shard_of(id)).name(id).key(),
            keys: keys.clone(),
            kind: kind.clone(),
            id: id.clone(),
        }
    }

    fn of(&self, word: &str) -> Tuple {
        self.keys.area(word).name(&self.kind).name(&self.id)
    }

    pub(crate) fn state(&self) -> Tuple {
        self.of("state")
    }

    pub(crate) fn piece(&self, bundle: u64, number: u64) -> Key {
        self.of("piece").int(bundle).int(number).key()
    }

    pub(crate) fn pieces(&self, bundle: u64) -> Range {
        self.of("piece").int(bundle).range()
    }

    /// That an answer is to be given later, in pieces under this number: within their range, and no piece.
    pub(crate) fn later(&self, bundle: u64) -> Key {
        self.piece(bundle, LATER)
    }

    /// That this session's caller is to be answered later.
    pub(crate) fn owed(&self, session: SessionId, slot: u64) -> Key {
        self.of("owed").bytes(session.to_bytes().to_vec()).int(slot).key()
    }

    pub(crate) fn oweds(&self) -> Range {
        self.of("owed").range()
    }

    pub(crate) fn once(&self, key: &str) -> Key {
        self.of("once").text(key).key()
    }

    pub(crate) fn onces(&self) -> Range {
        self.of("once").range()
    }

    pub(crate) fn dead(&self, number: u64) -> Key {
        self.of("dead").int(number).key()
    }

    pub(crate) fn deads(&self) -> Range {
        self.of("dead").range()
    }

    pub(crate) fn timer(&self, timer: u64, at_ms: u64) -> Key {
        self.of("timer").int(timer).int(at_ms).key()
    }

    pub(crate) fn timers(&self) -> Range {
        self.of("timer").range()
    }

    pub(crate) fn due(&self, at_ms: u64, timer: u64) -> Key {
        let shard = shard_of(&self.id);
        KindKeys::new(&self.keys, &self.kind).due(shard).int(at_ms).name(&self.id).int(timer).key()
    }

    pub(crate) fn effect_piece(&self, effect: u64, number: u64) -> Key {
        self.of("effect").int(effect).int(number).key()
    }

    pub(crate) fn effect_pieces(&self, effect: u64) -> Range {
        self.of("effect").int(effect).range()
    }

    /// Deletes everything that the server has, but for entries of `due`, and for effects that are not done and the mark
    /// that there are some.
    pub(crate) fn delete(&self, commit: Commit, effects: bool, flaws: Flaws) -> Commit {
        let words = ["state", "piece", "once", "owed", "dead", "timer"].into_iter();
        let words = words.filter(|word| *word != "once" || !flaws.answers_outlive_server);
        let ranges = words.map(|word| self.of(word).range());
        let lists = [&self.queue, &self.urgent].map(|list| Range::Key(list.clone()));
        let mut commit = commit.delete(self.head.clone()).delete(self.full.clone());
        if !effects {
            commit = commit.delete(self.work.clone());
        }
        ranges.chain(lists).fold(commit, Commit::delete_range)
    }
}

/// Makes the keys that all servers of a kind share.
#[derive(Clone, Debug)]
pub(crate) struct KindKeys {
    keys: Keys,
    kind: Name,
}

impl KindKeys {
    pub(crate) fn new(keys: &Keys, kind: &Name) -> Self {
        Self { keys: keys.clone(), kind: kind.clone() }
    }

    pub(crate) fn work(&self, shard: u64) -> Tuple {
        self.keys.area("work").name(&self.kind).int(shard)
    }

    /// The work of all shards.
    pub(crate) fn works(&self) -> Range {
        self.keys.area("work").name(&self.kind).range()
    }

    /// The dead letters of all servers.
    pub(crate) fn deads(&self) -> Range {
        self.keys.area("dead").name(&self.kind).range()
    }

    pub(crate) fn due(&self, shard: u64) -> Tuple {
        self.keys.area("due").name(&self.kind).int(shard)
    }

    pub(crate) fn heads(&self) -> Range {
        self.keys.area("head").name(&self.kind).range()
    }

    /// Changes whenever a node begins or ceases to consume.
    pub(crate) fn consumers(&self) -> Key {
        self.keys.area("consumers").name(&self.kind).key()
    }

    /// That the node of this session consumes.
    pub(crate) fn consumer(&self, session: SessionId) -> Key {
        self.keys.belongings(session).text("consumer").name(&self.kind).key()
    }
}

pub(crate) fn send_lane(keys: &Keys, session: SessionId, number: u64) -> Key {
    keys.belongings(session).text("send").int(number).key()
}

/// A lane of first commits.
pub(crate) fn birth_lane(keys: &Keys, session: SessionId, number: u64) -> Key {
    keys.belongings(session).text("births").int(number).key()
}

/// The lane of what the node says of the kinds that it consumes.
pub(crate) fn consuming_lane(keys: &Keys, session: SessionId, number: u64) -> Key {
    keys.belongings(session).text("consuming").int(number).key()
}

pub(crate) fn replies(keys: &Keys, session: SessionId) -> Tuple {
    keys.belongings(session).text("reply")
}

/// The shard of a server: every node finds the same, in every release (FNV-1a, then mixed, since it hardly spreads names that differ in their last letters).
pub(crate) fn shard_of(id: &Name) -> u64 {
    let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    mix(hash) % SHARDS
}

/// Spreads what differs in any bit over all bits (the finalizer of splitmix64).
pub(crate) fn mix(number: u64) -> u64 {
    let first = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let second = (first ^ first >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    second ^ second >> 31
}

/// The id that a key of `head` or `work` ends with.
pub(crate) fn id_of(key: &Key) -> Result<Name, StoreError> {
    match Tuple::decode(key)?.parts().last() {
        Some(Part::Text(id)) => id.parse(),
        _ => Err(foreign(key, "server")),
    }
}

/// What a key of `due` says: when, which server, which timer.
pub(crate) fn due_of(key: &Key) -> Result<(u64, Name, u64), StoreError> {
    let found = Tuple::decode(key)?;
    match found.parts() {
        [.., Part::Int(at), Part::Text(id), Part::Int(timer)] => {
            let number = |int| u64::try_from(int).map_err(|_| foreign(key, "timer"));
            Ok((number(*at)?, id.parse()?, number(*timer)?))
        }
        _ => Err(foreign(key, "timer")),
    }
}

/// The numbers that a key of `reply`, `piece` or `timer` ends with.
pub(crate) fn numbers_of(key: &Key) -> Result<(u64, u64), StoreError> {
    let found = Tuple::decode(key)?;
    match found.parts() {
        [.., Part::Int(first), Part::Int(second)] => {
            let number = |int| u64::try_from(int).map_err(|_| foreign(key, "piece"));
            Ok((number(*first)?, number(*second)?))
        }
        _ => Err(foreign(key, "piece")),
    }
}

/// The number of the dead letter that a key of `dead` names.
pub(crate) fn dead_of(key: &Key) -> Result<u64, StoreError> {
    match Tuple::decode(key)?.parts().last() {
        Some(Part::Int(number)) => u64::try_from(*number).map_err(|_| foreign(key, "dead letter")),
        _ => Err(foreign(key, "dead letter")),
    }
}

fn foreign(key: &Key, what: &str) -> StoreError {
    StoreError::corrupt(format!("key {key} names no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_alike_are_spread() {
        let mut counts = [0_usize; 16];
        for number in 0..1600 {
            let id: Name = format!("user-{number:05}").parse().unwrap();
            counts[usize::try_from(shard_of(&id)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }
}
