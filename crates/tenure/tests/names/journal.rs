//! [`Journal`]: what a process did and when, kept where no signal can take it away; and [`History`]: what all of them did.
//!
//! A file of lines. Each is appended by one system call before the process goes on, so one that is killed has left all that it knew; at worst its last line is cut
//! off, and then it had not gone on. All times are nanoseconds of the machine's boot-time clock, which is the same for all processes.
//!
//! | line | means |
//! | --- | --- |
//! | `node NODE SESSION` | who this is |
//! | `ask TIME CLAIM NAME` | a name is about to be asked for |
//! | `own TIME CLAIM NUMBER EPOCH` | it was acknowledged |
//! | `taken TIME CLAIM SESSION` | it was refused: it is this one's |
//! | `not TIME CLAIM WORDS` | it was not registered |
//! | `maybe TIME CLAIM WORDS` | nobody knows; if it was, it is taken back |
//! | `back TIME CLAIM` | it is about to be taken back |
//! | `free TIME CLAIM` | that was acknowledged |
//! | `lost TIME CLAIM` | its session is about to lapse |
//! | `see FROM TO NAME SESSION NUMBER` | a consistent look-up between these times found this owner, or nobody: `-` |
//! | `call FROM TO NAME SESSION CLAIM` | a call between these times was answered by this claim |
//! | `flaw WORDS` | something that must not be, seen by the process itself |

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs::File,
    io::Write as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use tenure::store::Env;

/// What one process does, for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    env: Env,
    claims: AtomicU64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> Self {
        let file = File::options().append(true).create_new(true).open(path).unwrap();
        Self { file, env: Env::system(), claims: AtomicU64::new(0) }
    }

    /// A name is about to be asked for. Returns the number of this claim.
    pub(crate) fn ask(&self, name: &str) -> u64 {
        let claim = self.claims.fetch_add(1, Ordering::SeqCst);
        self.write(&format!("ask {} {claim} {name}\n", self.now()));
        claim
    }

    /// Something has happened to a claim.
    pub(crate) fn tell(&self, word: &str, claim: u64, more: impl Display) {
        let line = format!("{word} {} {claim} {more}", self.now());
        self.write(&format!("{}\n", line.trim_end().replace('\n', "; ")));
    }

    /// Something was seen, since this time.
    pub(crate) fn saw(&self, word: &str, since: u64, more: impl Display) {
        self.write(&format!("{word} {since} {} {more}\n", self.now()));
    }

    pub(crate) fn say(&self, line: impl Display) {
        self.write(&format!("{line}\n"));
    }

    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.env.now().since_start().as_nanos()).unwrap()
    }

    fn write(&self, line: &str) {
        (&self.file).write_all(line.as_bytes()).unwrap();
    }
}

/// A name that somebody asked for, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// Which process, and its number there.
    pub(crate) session: String,
    pub(crate) number_there: u64,
    pub(crate) name: String,
    pub(crate) ask: u64,
    pub(crate) outcome: Outcome,
    pub(crate) back: Option<u64>,
    pub(crate) free: Option<u64>,
    pub(crate) lost: Option<u64>,
}

/// What came of asking for a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its process was killed before it knew, or nobody knows.
    Unknown,
    Own {
        at: u64,
        number: u64,
        epoch: u64,
    },
    Taken {
        at: u64,
        by: String,
    },
    Not(String),
}

/// What somebody saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) name: String,
    /// Whose it was, and which number: of the registration for a look-up, of the claim for a call.
    pub(crate) owner: Option<(String, u64)>,
}

/// What all processes did.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) claims: Vec<Claim>,
    pub(crate) looks: Vec<Sight>,
    pub(crate) calls: Vec<Sight>,
    /// When processes were killed, by their sessions: just before, and when they were gone.
    pub(crate) killed: BTreeMap<String, (u64, u64)>,
    pub(crate) flaws: Vec<String>,
}

impl History {
    /// Adds a journal, of a process that was killed between these times, if it was.
    pub(crate) fn add(&mut self, text: &str, killed: Option<(u64, u64)>) {
        let mut session = String::new();
        let mut places = BTreeMap::new();
        // A line that is cut off is none.
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let words: Vec<&str> = line.splitn(6, ' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "node" => session = words[2].to_owned(),
                "ask" => {
                    places.insert(number(2), self.claims.len());
                    self.claims.push(Claim {
                        session: session.clone(),
                        number_there: number(2),
                        name: words[3].to_owned(),
                        ask: number(1),
                        outcome: Outcome::Unknown,
                        back: None,
                        free: None,
                        lost: None,
                    });
                }
                "see" | "call" => {
                    let owner = (words[4] != "-").then(|| (words[4].to_owned(), number(5)));
                    let sight = Sight { from: number(1), to: number(2), name: words[3].to_owned(), owner };
                    if words[0] == "see" { &mut self.looks } else { &mut self.calls }.push(sight);
                }
                "flaw" => self.flaws.push(format!("{session}: {line}")),
                word => {
                    let claim = &mut self.claims[places[&number(2)]];
                    let at = number(1);
                    match word {
                        "own" => claim.outcome = Outcome::Own { at, number: number(3), epoch: number(4) },
                        "taken" => claim.outcome = Outcome::Taken { at, by: words[3].to_owned() },
                        "not" => claim.outcome = Outcome::Not(words[3..].join(" ")),
                        "maybe" => {}
                        "back" => claim.back = Some(at),
                        "free" => claim.free = Some(at),
                        "lost" => claim.lost = claim.lost.or(Some(at)),
                        other => panic!("{other:?} is no line of a journal"),
                    }
                }
            }
        }
        if let Some(killed) = killed {
            self.killed.insert(session, killed);
        }
    }
}
