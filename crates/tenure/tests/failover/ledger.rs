//! [`Ledger`]: what a worker believed and when, kept where no signal can take it away.
//!
//! A file of records of fixed size, one for each time that the worker won. Each field is rewritten in place by one system call, which no signal interrupts
//! half-way: so a worker that is killed or stopped has left everything that it knew. All times are nanoseconds of the machine's boot-time
//! clock, which is the same for all processes.

use std::{
    fs::File,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

/// The fields of a record, in their order.
const TERM: usize = 0;
const FIRST: usize = 1;
const LAST: usize = 2;
const DEADLINE: usize = 3;
const END: usize = 4;
const COMMITS: usize = 5;
const REFUSED: usize = 6;
const FIELDS: usize = 7;

const FIELD_BYTES: usize = size_of::<u64>();

/// The ledger of one worker, for writing.
#[derive(Debug)]
pub(crate) struct Ledger {
    file: Arc<File>,
    records: u64,
}

/// One observation of a leadership: it was believed in at some instant from `before` to `after`, and was to last until `deadline` at least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) before: Duration,
    pub(crate) after: Duration,
    pub(crate) deadline: Duration,
}

impl Ledger {
    pub(crate) fn create(path: &Path) -> Self {
        Self { file: Arc::new(File::create_new(path).unwrap()), records: 0 }
    }

    /// The record of a leadership that was won.
    pub(crate) fn begin(&mut self, term: u64, sample: Sample) -> Record {
        let record = Record {
            file: Arc::clone(&self.file),
            start: self.records * (FIELDS * FIELD_BYTES) as u64,
            given_up: AtomicBool::new(false),
            commits: AtomicU64::new(0),
        };
        self.records += 1;
        let Sample { before, after, deadline } = sample;
        // Believed for certain only from `after` on, and only up to `before`: nothing is certain yet.
        record.write(TERM, &[term, nanos(after), nanos(before), nanos(deadline), 0, 0, 0]);
        record
    }
}

/// The record of one leadership, for writing.
#[derive(Debug)]
pub(crate) struct Record {
    file: Arc<File>,
    start: u64,
    given_up: AtomicBool,
    commits: AtomicU64,
}

impl Record {
    /// It was believed in once more.
    pub(crate) fn believed(&self, sample: Sample) {
        self.write(LAST, &[nanos(sample.before), nanos(sample.deadline)]);
    }

    /// The worker is about to give it up: from now on, its deadline is void.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::SeqCst);
        self.write(END, &[End::GivenUp as u64]);
    }

    /// It is not believed in any more.
    pub(crate) fn lost(&self) {
        if !self.given_up.load(Ordering::SeqCst) {
            self.write(END, &[End::Lost as u64]);
        }
    }

    /// One more commit under its guard was acknowledged.
    pub(crate) fn committed(&self) {
        let commits = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        self.write(COMMITS, &[commits]);
    }

    /// A commit under its guard was refused.
    pub(crate) fn refused(&self) {
        self.write(REFUSED, &[1]);
    }

    fn write(&self, field: usize, values: &[u64]) {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        self.file.write_all_at(&bytes, self.start + (field * FIELD_BYTES) as u64).unwrap();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("no machine runs for centuries")
}

/// How a leadership ended, as far as the worker could tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It did not notice any.
    None = 0,
    /// It was not believed in any more.
    Lost = 1,
    /// It was resigned, or the worker left.
    GivenUp = 2,
}

/// A leadership as its worker believed in it.
#[derive(Clone, Debug)]
pub(crate) struct Belief {
    /// Whose: the name of the ledger.
    pub(crate) worker: String,
    pub(crate) term: u64,
    /// Believed for certain from here, if `last` is not before it.
    pub(crate) first: Duration,
    /// Believed for certain up to here.
    pub(crate) last: Duration,
    /// Until when it was said to last, when last asked.
    pub(crate) deadline: Duration,
    pub(crate) end: End,
    /// How many commits under its guard were acknowledged.
    pub(crate) commits: u64,
    /// Whether a commit under its guard was refused.
    pub(crate) refused: bool,
}

/// The ledger of one worker, for reading.
#[derive(Clone, Debug)]
pub(crate) struct Testimony {
    pub(crate) path: PathBuf,
}

impl Testimony {
    /// All that the worker has written, oldest first.
    pub(crate) fn read(&self) -> Vec<Belief> {
        // Before the worker has made it, it is empty.
        let bytes = std::fs::read(&self.path).unwrap_or_default();
        bytes.chunks_exact(FIELDS * FIELD_BYTES).map(|record| self.belief(record)).collect()
    }

    fn belief(&self, record: &[u8]) -> Belief {
        let field = |field: usize| {
            let bytes = &record[field * FIELD_BYTES..][..FIELD_BYTES];
            u64::from_be_bytes(bytes.try_into().expect("the size of a field"))
        };
        let end = match field(END) {
            end if end == End::GivenUp as u64 => End::GivenUp,
            end if end == End::Lost as u64 => End::Lost,
            _ => End::None,
        };
        let name = self.path.file_name().expect("the path of a file");
        Belief {
            worker: name.to_string_lossy().into_owned(),
            term: field(TERM),
            first: Duration::from_nanos(field(FIRST)),
            last: Duration::from_nanos(field(LAST)),
            deadline: Duration::from_nanos(field(DEADLINE)),
            end,
            commits: field(COMMITS),
            refused: field(REFUSED) != 0,
        }
    }
}
