//! The `tenure` command.

mod exit;
mod options;
mod run;
mod serve;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use crate::exit::{Exit, Failure};

/// Leader election and singletons for any command, kept in the database you already run.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunOptions>),
    Serve(Box<serve::ServeOptions>),
}

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // These two are started by ourselves, and must be quick.
    match arguments.first().and_then(|first| first.to_str()) {
        Some(run::guardian::COMMAND) => return run::guardian::main(arguments.split_off(1)),
        Some(run::launch::COMMAND) => return run::launch::main(&arguments[1..]),
        _ => {}
    }
    let arguments = Arguments::parse();
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(perform(arguments.command)));
    match done {
        Ok(exit) => exit.code(),
        Err(error) => {
            let exit = error.downcast_ref::<Failure>().map_or(Exit::Command(WRONG), |failure| failure.exit);
            let _ = writeln!(io::stderr(), "tenure: {error:#}");
            exit.code()
        }
    }
}

/// The code for arguments that can't be followed.
const WRONG: u8 = 2;

async fn perform(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(options) => run::run(*options).await,
        Command::Serve(options) => serve::serve(*options).await,
    }
}
