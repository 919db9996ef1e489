//! The `tenure` command.

mod commands;
mod config;
mod demo;
mod exit;
mod options;
mod output;
mod run;
mod serve;
mod views;

use std::{
    ffi::OsString,
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::exit::Exit;

/// Leader election, singletons, durable servers and names, kept in the database you already run.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, arg_required_else_help = true, after_help = exit::CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::RunOptions>),
    Serve(Box<serve::ServeOptions>),
    Demo(demo::DemoOptions),
    #[command(flatten)]
    Look(commands::Command),
}

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // These are started by ourselves, and must be quick.
    match arguments.first().and_then(|first| first.to_str()) {
        Some(run::guardian::COMMAND) => return run::guardian::main(arguments.split_off(1)),
        Some(run::launch::COMMAND) => return run::launch::main(&arguments[1..]),
        Some(demo::node::COMMAND) => return demo::node::main(&arguments[1..]),
        Some(demo::janitor::COMMAND) => return demo::janitor::main(&arguments[1..]),
        _ => {}
    }
    // The demo is the same wherever it is started: what a file says of the store is not meant for it.
    let with_file = match arguments.first() {
        Some(first) if first == "demo" => Ok(Arguments::command()),
        _ => config::with_file(Arguments::command(), &arguments),
    };
    let arguments = match with_file {
        Ok(command) => match Arguments::from_arg_matches(&command.get_matches()) {
            Ok(arguments) => arguments,
            Err(error) => error.exit(),
        },
        Err(error) => return fail(&error),
    };
    // Only the daemon has enough to do for more than one thread.
    let mut runtime = match arguments.command {
        Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    let done = runtime
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(perform(arguments.command)));
    match done {
        Ok(exit) => exit.code(),
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let _ = writeln!(io::stderr(), "tenure: {}", output::plain(&format!("{error:#}")));
    Exit::of(error).code()
}

/// The code for arguments that can't be followed.
const WRONG: u8 = 2;

async fn perform(command: Command) -> anyhow::Result<Exit> {
    match command {
        Command::Run(options) => run::run(*options).await,
        Command::Serve(options) => serve::serve(*options).await,
        Command::Demo(options) => demo::demo(options).await,
        Command::Look(command) => command.perform(Arguments::command).await,
    }
}
