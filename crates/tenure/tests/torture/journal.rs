//! [`Journal`]: what a process did and when, kept where no signal can take it away; and [`History`]: what all of them did.
//!
//! A file of lines. Each is appended by one system call before the process goes on, so one that is killed has left all that it knew; at worst its last line is cut
//! off, and then it had not gone on. All times are nanoseconds of the machine's boot-time clock, which is the same for all processes.
//!
//! | line | means |
//! | --- | --- |
//! | `begin TIME ID SERVER SORT` | it is about to be sent |
//! | `ok TIME ID [PLACE]` | it was acknowledged, or answered with this place |
//! | `refused TIME ID WORDS` | nothing was done, as the error says |
//! | `unknown TIME ID WORDS` | it may have been done, or may be yet |
//! | `did ID` | its effect |

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Write as _,
    path::Path,
    time::Duration,
};

use tenure::{server::ServerError, store::Env};

use crate::log::{Id, Sort};

/// What one process does, for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    env: Env,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options().append(true).create_new(true).open(path).unwrap();
        Self { file, env: Env::system() }
    }

    /// A message is about to be sent.
    pub(crate) fn begin(&self, id: Id, server: usize, sort: Sort) {
        self.write(&format!("begin {} {id} {server} {sort:?}\n", self.now()));
    }

    /// What came of it.
    pub(crate) fn end(&self, id: Id, outcome: &Result<Option<u64>, ServerError>) {
        let now = self.now();
        self.write(&match outcome {
            Ok(None) => format!("ok {now} {id}\n"),
            Ok(Some(place)) => format!("ok {now} {id} {place}\n"),
            Err(
                error @ (ServerError::Timeout { .. } | ServerError::OutcomeUnknown(_) | ServerError::Left),
            ) => format!("unknown {now} {id} {}\n", one_line(error)),
            Err(error) => format!("refused {now} {id} {}\n", one_line(error)),
        });
    }

    /// The effect of a message.
    pub(crate) fn did(&self, id: Id) {
        self.write(&format!("did {id}\n"));
    }

    fn now(&self) -> u128 {
        self.env.now().since_start().as_nanos()
    }

    fn write(&self, line: &str) {
        let written = (&self.file).write(line.as_bytes()).unwrap();
        assert_eq!(written, line.len(), "a line of a journal was cut off");
    }
}

fn one_line(error: &ServerError) -> String {
    error.to_string().replace('\n', " ")
}

/// A message, as its sender knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) server: usize,
    pub(crate) sort: Sort,
    /// How often it was sent: more than once under an idempotency key.
    pub(crate) times: usize,
    /// When it was first about to be sent.
    pub(crate) begin: Duration,
    /// When it was first acknowledged.
    pub(crate) acknowledged: Option<Duration>,
    /// The places that it was answered with.
    pub(crate) answers: Vec<u64>,
    /// How often nothing was done, as the errors said, and one of them.
    pub(crate) refused: usize,
    /// How often the sender did not learn whether it was done.
    pub(crate) unknown: usize,
    /// The last error.
    pub(crate) error: String,
    /// The longest wait for an acknowledgement.
    pub(crate) wait: Duration,
}

/// What must have become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    NotDone,
    Unknown,
}

impl Sent {
    pub(crate) fn new(server: usize, sort: Sort, begin: Duration) -> Self {
        Self {
            server,
            sort,
            times: 1,
            begin,
            acknowledged: None,
            answers: Vec::new(),
            refused: 0,
            unknown: 0,
            error: String::new(),
            wait: Duration::ZERO,
        }
    }

    pub(crate) fn fate(&self) -> Fate {
        match self.acknowledged {
            Some(_) => Fate::Done,
            None if self.refused == self.times => Fate::NotDone,
            None => Fate::Unknown,
        }
    }
}

/// What all processes did.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) sent: BTreeMap<Id, Sent>,
    /// The messages whose effects were done.
    pub(crate) did: BTreeSet<Id>,
}

impl History {
    /// Adds what one process has left.
    pub(crate) fn add(&mut self, path: &Path) {
        // Before the process has made it, it is empty.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            assert!(self.add_line(&words).is_some(), "{line:?} is no line of a journal");
        }
    }

    fn add_line(&mut self, words: &[&str]) -> Option<()> {
        if let ["did", id] = words {
            self.did.insert(id.parse().ok()?);
            return Some(());
        }
        let [what, time, id, rest @ ..] = words else { return None };
        let (time, id): (Duration, Id) = (Duration::from_nanos(time.parse().ok()?), id.parse().ok()?);
        if *what == "begin" {
            let (server, sort) = rest.first()?.split_once(' ')?;
            let sent = Sent::new(server.parse().ok()?, Sort::named(sort)?, time);
            self.sent.entry(id).and_modify(|sent| sent.times += 1).or_insert(sent);
            return Some(());
        }
        let sent = self.sent.get_mut(&id)?;
        match *what {
            "ok" => {
                sent.acknowledged.get_or_insert(time);
                sent.wait = sent.wait.max(time - sent.begin);
                sent.answers.extend(rest.first().and_then(|place| place.parse::<u64>().ok()));
            }
            "refused" => sent.refused += 1,
            "unknown" => sent.unknown += 1,
            _ => return None,
        }
        if *what != "ok" {
            sent.error = rest.join(" ");
        }
        Some(())
    }
}
