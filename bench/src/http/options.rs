//! [`Options`]: what a run is asked for.

use std::time::Duration;

/// What is printed for a command line that makes no sense.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench http [--store URL] [--rate N] [--seconds N] [--quick]

  --store URL   a store on a server that runs already; without it, SQLite in a file of its own
  --rate N      requests a second: usually 2,000
  --seconds N   for so long: usually 30
  --quick       a short run, to see whether it works: its figures say little";

/// What a run is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) url: Option<String>,
    pub(crate) rate: u32,
    pub(crate) time: Duration,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Option<Self> {
        let mut options = Self { url: None, rate: 2000, time: Duration::from_secs(30) };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--quick" => options.time = Duration::from_secs(3),
                "--store" => options.url = Some(args.next()?.clone()),
                "--rate" => {
                    options.rate = args.next()?.parse().ok().filter(|rate| (1..=100_000).contains(rate))?;
                }
                "--seconds" => options.time = Duration::from_secs(args.next()?.parse().ok()?),
                _ => return None,
            }
        }
        Some(options)
    }
}
