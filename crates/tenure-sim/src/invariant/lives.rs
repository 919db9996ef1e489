//! [`Lives`]: what servers wrote down, from each one's first commit to its deletion, as it was committed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tenure_cluster::Keys;
use tenure_server::state::read_field;
use tenure_store::{Bytes, Commit, Env, Key, Write};

use crate::Auditor;

/// The field of the state that has the lines.
pub const LINES: &str = "lines";

/// What a server writes down when it applies a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The message, by its name.
    pub name: String,
    /// What it was.
    pub deed: Deed,
    /// A number that the callback draws in each run: only one of them counts.
    pub run: u64,
    /// What the wall clock showed then, in milliseconds.
    pub at_ms: u64,
}

/// What was done with a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// A sender's message was written down.
    Noted,
    /// The same, with a priority message.
    Urgent,
    /// The same, and something was to be done to the world, and something else after the commit.
    Caused,
    /// So much was given to another server, in a message of its own: at once, or later.
    Gave {
        /// The other server.
        to: String,
        /// How much.
        amount: i64,
        /// Whether it comes later.
        later: bool,
    },
    /// That message.
    Took {
        /// The server that sent it.
        from: String,
        /// How much.
        amount: i64,
        /// Whether it came later.
        later: bool,
    },
    /// A timer was set, which is due then.
    Armed(u64),
    /// It was taken back.
    Disarmed(String),
    /// Its message has come.
    Fired,
}

impl Deed {
    /// Whether another server, or this one, has sent the message.
    #[must_use]
    pub fn is_from_server(&self) -> bool {
        matches!(self, Self::Took { .. } | Self::Fired)
    }
}

/// One life of a server.
#[derive(Clone, Debug)]
pub struct Life {
    /// When its first commit took effect.
    pub began: Duration,
    /// When it was deleted.
    pub ended: Option<Duration>,
    /// What it has written in the end.
    pub lines: Vec<Line>,
}

impl Life {
    /// The places of what senders sent, by name.
    pub fn sent(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.deed.is_from_server())
    }
}

/// All lives of a server, and when anything of it was deleted, whether or not it had begun to live.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Its lives.
    pub lives: Vec<Life>,
    /// When deletions took effect.
    pub deletions: Vec<Duration>,
}

impl History {
    /// Whether it was deleted in this time.
    #[must_use]
    pub fn was_deleted(&self, from: Duration, to: Duration) -> bool {
        self.deletions.iter().any(|at| from <= *at && *at <= to)
    }

    /// All lines of all lives.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lives.iter().flat_map(|life| &life.lines)
    }
}

/// Follows servers through all commits, with the wall clock of a simulation, which is right. Clones are the same.
#[derive(Clone, Debug)]
pub struct Lives(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    env: Env,
    servers: BTreeMap<String, Server>,
    /// Whose keys these are.
    heads: BTreeMap<Key, String>,
    queues: BTreeMap<String, Key>,
    lines: BTreeMap<Key, String>,
}

#[derive(Debug, Default)]
struct Server {
    lives: Vec<Stored>,
    deletions: Vec<Duration>,
}

/// A life as it is stored.
#[derive(Debug)]
struct Stored {
    began: Duration,
    ended: Option<Duration>,
    last: Option<Bytes>,
}

impl Lives {
    /// Follows these servers, given by kind and name. Names are used once.
    #[must_use]
    pub fn new(env: Env, keys: &Keys, servers: &[(&str, &str)]) -> Self {
        let key = |word: &str, kind: &str, id: &str| keys.area(word).text(kind).text(id);
        let named = |make: &dyn Fn(&str, &str) -> Key| {
            servers.iter().map(|(kind, id)| (make(kind, id), (*id).to_owned())).collect()
        };
        Self(Arc::new(Mutex::new(Inner {
            env,
            heads: named(&|kind, id| key("head", kind, id).key()),
            lines: named(&|kind, id| key("state", kind, id).text(LINES).key()),
            queues: servers
                .iter()
                .map(|(kind, id)| ((*id).to_owned(), key("queue", kind, id).key()))
                .collect(),
            servers: servers.iter().map(|(_, id)| ((*id).to_owned(), Server::default())).collect(),
        })))
    }

    /// What is known of a server.
    ///
    /// # Panics
    /// If it is not one of those that are followed, or its lines can't be read.
    #[must_use]
    pub fn of(&self, id: &str) -> History {
        let inner = self.0.lock();
        let key = inner.lines.iter().find(|(_, its)| *its == id).map(|(key, _)| key).expect("it is followed");
        let read = |value: &Option<Bytes>| -> Vec<Line> {
            value.as_ref().map_or_else(Vec::new, |value| read_field(key, value).expect("lines can be read"))
        };
        let server = &inner.servers[id];
        let life =
            |stored: &Stored| Life { began: stored.began, ended: stored.ended, lines: read(&stored.last) };
        History { lives: server.lives.iter().map(life).collect(), deletions: server.deletions.clone() }
    }
}

impl Auditor for Lives {
    fn took_effect(&mut self, commit: &Commit) -> Result<(), String> {
        let mut inner = self.0.lock();
        let Inner { env, servers, heads, queues, lines } = &mut *inner;
        // A server that was made for messages that are gone is unmade without them.
        let deletes = |id: &String| {
            let is_gone =
                |write: &Write| matches!(write, Write::DeleteRange(range) if range.contains(&queues[id]));
            commit.writes.iter().any(is_gone)
        };
        for write in &commit.writes {
            let (Write::Set(key, _) | Write::Delete(key)) = write else { continue };
            let Some(id) = heads.get(key) else { continue };
            let Some(server) = servers.get_mut(id) else { continue };
            let now = env.unix_time();
            let alive = server.lives.last_mut().filter(|life| life.ended.is_none());
            match (write, alive) {
                (Write::Set(..), None) => {
                    server.lives.push(Stored { began: now, ended: None, last: None });
                }
                (Write::Delete(_), alive) => {
                    if let Some(life) = alive {
                        life.ended = Some(now);
                    }
                    if deletes(id) {
                        server.deletions.push(now);
                    }
                }
                _ => {}
            }
        }
        for write in &commit.writes {
            let Write::Set(key, value) = write else { continue };
            let Some(id) = lines.get(key) else { continue };
            let life = servers.get_mut(id).and_then(|server| server.lives.last_mut());
            let Some(life) = life.filter(|life| life.ended.is_none()) else {
                return Err(format!("{id} was written to without a head"));
            };
            life.last = Some(value.clone());
        }
        Ok(())
    }
}
