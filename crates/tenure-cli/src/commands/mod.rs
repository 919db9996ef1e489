//! What operators look at and change: one file for each group of commands.

mod describe;
mod doctor;
mod elections;
mod members;
mod operate;
mod registry;
mod schema;
mod server;
mod servers;
mod status;
mod watch;
mod why;

use clap::Subcommand;

use crate::{exit::Exit, options::StoreOptions, output::Output};

/// What every one of them has.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) store: StoreOptions,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Status(status::StatusOptions),
    /// Show who is there
    Members(members::MembersOptions),
    Elections(elections::ElectionsOptions),
    Leader(elections::LeaderOptions),
    Why(why::WhyOptions),
    History(elections::HistoryOptions),
    Watch(watch::WatchOptions),
    Resign(operate::ResignOptions),
    HandOver(operate::HandOverOptions),
    Depose(operate::DeposeOptions),
    Servers(servers::ServersOptions),
    /// Look at one server, send to it, and treat its dead letters
    #[command(subcommand)]
    Server(Box<server::ServerCommand>),
    /// Look at registries and their names
    #[command(subcommand)]
    Registry(registry::RegistryCommand),
    Doctor(doctor::DoctorOptions),
    /// Print what a store needs created, or what --json prints
    #[command(subcommand)]
    Schema(schema::SchemaCommand),
    Completions(describe::CompletionsOptions),
    Man(describe::ManOptions),
}

impl Command {
    /// Does what it says. `whole` is the program's command line, for those that describe it.
    pub(crate) async fn perform(self, whole: fn() -> clap::Command) -> anyhow::Result<Exit> {
        match self {
            Self::Status(options) => status::perform(options).await,
            Self::Members(options) => members::perform(options).await,
            Self::Elections(options) => elections::elections(options).await,
            Self::Leader(options) => elections::leader(options).await,
            Self::Why(options) => why::perform(options).await,
            Self::History(options) => elections::history(options).await,
            Self::Watch(options) => watch::perform(options).await,
            Self::Resign(options) => operate::resign(options).await,
            Self::HandOver(options) => operate::hand_over(options).await,
            Self::Depose(options) => operate::depose(options).await,
            Self::Server(command) => server::perform(*command).await,
            Self::Servers(options) => servers::perform(options).await,
            Self::Registry(command) => registry::perform(command).await,
            Self::Doctor(options) => doctor::perform(options).await,
            Self::Schema(command) => schema::perform(command),
            Self::Completions(options) => describe::completions(&options, whole()),
            Self::Man(options) => describe::man(&options, whole()),
        }
    }
}

/// Reads how many are wanted at most.
fn limit(text: &str) -> Result<usize, String> {
    const MAX: usize = 100_000;
    match text.parse() {
        Ok(limit) if (1..=MAX).contains(&limit) => Ok(limit),
        _ => Err(format!("write a number from 1 to {MAX}")),
    }
}
