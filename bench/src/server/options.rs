//! [`Options`]: what a run is asked for.

/// What is printed for a command line that makes no sense.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench server [--store URL] [--quick] [--idle N] [--only GROUP]

  --store URL   a store on a server that runs already; without it, SQLite in a file of its own
  --quick       a short run, to see whether it works: its figures say little
  --idle N      how many idle servers: usually 1,000,000 on SQLite, 100,000 elsewhere
  --only GROUP  only the rows of one group: inline, queued, casts, large or idle;
                or one row, by the begin of its name: \"inline, 256 callers, 1 server\"";

/// What a run is asked for, and how large its rows are.
#[derive(Debug)]
pub(crate) struct Options {
    /// The store; SQLite in a file of its own if there is none.
    pub(crate) url: Option<String>,
    only: Option<String>,
    idle: Option<u64>,
    quick: bool,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Option<Self> {
        let mut options = Self { url: None, only: None, idle: None, quick: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--store" => options.url = Some(args.next()?.clone()),
                "--only" => options.only = Some(args.next()?.clone()),
                "--idle" => options.idle = Some(args.next()?.replace(['_', ','], "").parse().ok()?),
                _ => return None,
            }
        }
        Some(options)
    }

    pub(crate) fn wants(&self, group: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.starts_with(group))
    }

    pub(crate) fn wants_row(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.starts_with(only))
    }

    /// How long a row takes.
    pub(crate) fn seconds(&self) -> f64 {
        if self.quick { 1.0 } else { 5.0 }
    }

    /// How long one measurement of the raw rate takes, of which there are three between two rows.
    pub(crate) fn raw_seconds(&self) -> f64 {
        if self.quick { 0.1 } else { 0.3 }
    }

    /// How many casts are sent in bulk.
    pub(crate) fn casts(&self) -> u64 {
        if self.quick { 10_000 } else { 100_000 }
    }

    /// How many entries the large state has.
    pub(crate) fn entries(&self) -> u64 {
        if self.quick { 10_000 } else { 100_000 }
    }

    /// How many servers there are that nobody uses.
    pub(crate) fn idle(&self) -> u64 {
        let usual = match (&self.url, self.quick) {
            (_, true) => 1000,
            (Some(url), _) if !url.starts_with("sqlite") => 100_000,
            _ => 1_000_000,
        };
        self.idle.unwrap_or(usual).max(1)
    }
}
