//! `tenure completions`, `tenure man`: the command line, described by itself.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use clap_complete::Shell;

use crate::{exit::Exit, output::say};

/// Print what completes commands in a shell
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  tenure completions bash > /etc/bash_completion.d/tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish")]
pub(crate) struct CompletionsOptions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(options: &CompletionsOptions, mut whole: clap::Command) -> anyhow::Result<Exit> {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut whole, "tenure", &mut text);
    say(&String::from_utf8(text)?)?;
    Ok(Exit::DONE)
}

/// Print a manual page, or write all of them to a folder
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  tenure man server call | man -l -
  tenure man --folder /usr/local/share/man/man1")]
pub(crate) struct ManOptions {
    /// The command whose page is printed [default: tenure itself]
    #[arg(conflicts_with = "folder")]
    command: Vec<String>,

    /// Write all pages into this folder
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub(crate) fn man(options: &ManOptions, whole: clap::Command) -> anyhow::Result<Exit> {
    if let Some(folder) = &options.folder {
        let failed = || format!("can't write pages to --folder {}", folder.display());
        std::fs::create_dir_all(folder).with_context(failed)?;
        clap_mangen::generate_to(whole, folder).with_context(failed)?;
        return Ok(Exit::DONE);
    }
    let mut name = whole.get_name().to_owned();
    let mut command = whole;
    command.build();
    for word in &options.command {
        let found = command.find_subcommand(word).cloned();
        let Some(found) = found else { anyhow::bail!("{name} has no command {word:?}: see {name} --help") };
        name = format!("{name}-{word}");
        command = found;
    }
    let mut text = Vec::new();
    // Pages are looked up by names that live as long as the program.
    let page: &'static str = Box::leak(name.into_boxed_str());
    clap_mangen::Man::new(command.name(page)).render(&mut text)?;
    say(&String::from_utf8(text)?)?;
    Ok(Exit::DONE)
}
