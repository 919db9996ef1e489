//! [`Options`]: what a run is asked for.

/// What is printed for a command line that makes no sense.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench registry [--store URL] [--quick] [--names N] [--only GROUP]

  --store URL   a store on a server that runs already; without it, SQLite in a file of its own
  --quick       a short run, to see whether it works: its figures say little
  --names N     how many names there are for look-ups, newcomers and hand-over: usually 100,000
  --only GROUP  only the rows of one group: registering, looking, calling or passing";

/// What a run is asked for, and how large its rows are.
#[derive(Debug)]
pub(crate) struct Options {
    /// The store; SQLite in a file of its own if there is none.
    pub(crate) url: Option<String>,
    only: Option<String>,
    names: Option<u64>,
    quick: bool,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Option<Self> {
        let mut options = Self { url: None, only: None, names: None, quick: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--store" => options.url = Some(args.next()?.clone()),
                "--only" => options.only = Some(args.next()?.clone()),
                "--names" => options.names = Some(args.next()?.replace(['_', ','], "").parse().ok()?),
                _ => return None,
            }
        }
        Some(options)
    }

    pub(crate) fn wants(&self, group: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == group)
    }

    /// How long a row takes.
    pub(crate) fn seconds(&self) -> f64 {
        if self.quick { 0.5 } else { 4.0 }
    }

    /// How long one measurement of the raw rate takes.
    pub(crate) fn raw_seconds(&self) -> f64 {
        if self.quick { 0.1 } else { 0.3 }
    }

    /// How many names there are.
    pub(crate) fn names(&self) -> u64 {
        self.names.unwrap_or(if self.quick { 5_000 } else { 100_000 }).max(1)
    }

    /// How often leading is handed over, each way.
    pub(crate) fn rounds(&self) -> usize {
        if self.quick { 2 } else { 7 }
    }
}
