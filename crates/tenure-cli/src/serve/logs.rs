//! Logs: one line each, for people or for programs.

use std::io;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    Layer, Registry, filter::Targets, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

/// The target of spans that are of use to a collector only: a log has a line for each request anyhow.
pub(crate) const SPANS: &str = "tenure::spans";

/// Something that events and spans go to.
pub(crate) type Lines = Box<dyn Layer<Registry> + Send + Sync>;

/// What is logged, and how. It goes to standard error.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogOptions {
    /// What is logged: error, warn, info, debug or trace; of a part alone as in `info,tenure_cluster=debug`
    #[arg(long, env = "TENURE_LOG", default_value = "info", value_name = "FILTER")]
    log: String,

    /// How: text, or json
    #[arg(long, value_enum, default_value_t = Format::Text, value_name = "FORMAT")]
    log_format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

impl LogOptions {
    /// Logs from now on, for the whole process; what is logged goes to `others`, too.
    ///
    /// # Errors
    /// When the filter is none.
    pub(crate) fn install(&self, others: Option<Lines>) -> anyhow::Result<()> {
        let filter: Targets = self.log.parse().with_context(|| {
            format!("--log {:?} is no filter: write info, or info,tenure_cluster=debug", self.log)
        })?;
        let lines = fmt::layer().with_writer(io::stderr);
        let lines = match self.log_format {
            Format::Text => lines.with_ansi(false).boxed(),
            Format::Json => lines.json().boxed(),
        };
        let lines = lines.with_filter(filter.with_target(SPANS, LevelFilter::OFF)).boxed();
        let all: Vec<Lines> = std::iter::once(lines).chain(others).collect();
        tracing_subscriber::registry().with(all).try_init().context("can't log")
    }
}
