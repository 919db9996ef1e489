//! [`Log`]: the file that every command of a case appends to, read as the lives of its incarnations.

use std::{
    fmt,
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
    str::FromStr,
};

use tenure::store::Env;

/// One start of the command: all that descends from it is of the same family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The node that started it.
    pub(crate) node: String,
    /// Its first process.
    pub(crate) command: i32,
    /// When that began: process ids come again.
    pub(crate) born: u64,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.node, self.command, self.born)
    }
}

impl FromStr for Family {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('/').collect();
        let [node, command, born] = parts[..] else { return Err(format!("no family: {text:?}")) };
        let command = command.parse().map_err(|_| format!("no process: {text:?}"))?;
        let born = born.parse().map_err(|_| format!("no moment: {text:?}"))?;
        Ok(Self { node: node.to_owned(), command, born })
    }
}

/// Whoever writes lines for a family: its command, or what that started.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    term: u64,
    pub(crate) family: Family,
    env: Env,
}

impl Writer {
    pub(crate) fn new(path: &Path, term: u64, family: Family) -> Self {
        let file = File::options().append(true).open(path).unwrap();
        Self { file, term, family, env: Env::system() }
    }

    /// Appends `WORD MOMENT TERM PROCESS FAMILY`, in one write, so that lines are whole whatever happens.
    pub(crate) fn write(&mut self, word: &str) {
        let (stamp, process) = (nanos(&self.env), std::process::id());
        let line = format!("{word} {stamp} {} {process} {}\n", self.term, self.family);
        self.file.write_all(line.as_bytes()).unwrap();
    }
}

/// What time it is, in nanoseconds since the machine was started.
pub(crate) fn nanos(env: &Env) -> u64 {
    u64::try_from(env.now().since_start().as_nanos()).unwrap()
}

/// What is known of a family: it lived from its first line to its last, whatever these say and whoever wrote them.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(crate) family: Family,
    /// Every term that its lines tell: one, if all is well.
    pub(crate) terms: Vec<u64>,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// The file, as far as it was read.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    unread: Vec<u8>,
    /// In the order in which they appeared.
    pub(crate) lives: Vec<Life>,
}

impl Log {
    pub(crate) fn open(path: &Path) -> Self {
        Self { file: File::open(path).unwrap(), unread: Vec::new(), lives: Vec::new() }
    }

    /// All of a log that was made by hand.
    pub(crate) fn parse(text: &str) -> Vec<Life> {
        let mut lives = Vec::new();
        text.lines().for_each(|line| add(&mut lives, line));
        lives
    }

    /// Reads what is new.
    pub(crate) fn read(&mut self) {
        self.file.read_to_end(&mut self.unread).unwrap();
        let Some(end) = self.unread.iter().rposition(|byte| *byte == b'\n') else { return };
        let whole: Vec<u8> = self.unread.drain(..=end).collect();
        String::from_utf8(whole).unwrap().lines().for_each(|line| add(&mut self.lives, line));
    }

    /// The family that began last.
    pub(crate) fn youngest(&self) -> Option<&Life> {
        self.lives.iter().max_by_key(|life| life.first)
    }
}

fn add(lives: &mut Vec<Life>, line: &str) {
    let parts: Vec<&str> = line.split(' ').collect();
    let ["start" | "beat" | "stop", stamp, term, _process, family] = parts[..] else {
        panic!("no line of a command: {line:?}");
    };
    let (stamp, term): (u64, u64) = (stamp.parse().unwrap(), term.parse().unwrap());
    let family: Family = family.parse().unwrap();
    // The latest are the last.
    let Some(life) = lives.iter_mut().rev().find(|life| life.family == family) else {
        return lives.push(Life { family, terms: vec![term], first: stamp, last: stamp });
    };
    (life.first, life.last) = (life.first.min(stamp), life.last.max(stamp));
    if !life.terms.contains(&term) {
        life.terms.push(term);
    }
}
