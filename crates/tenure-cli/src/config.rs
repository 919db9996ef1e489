//! Options from a TOML file: `store = "..."` for all commands, `[serve]` and `listen = "..."` for one.
//!
//! An option that is given wins over the environment, which wins over the file.

use std::{ffi::OsString, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::{ArgAction, Command};
use toml::{Table, Value};

/// What is read if nobody names another, if it is there.
const USUAL: &str = "tenure.toml";

/// Names the file.
const VARIABLE: &str = "TENURE_CONFIG";

/// The command, with what the file says as its defaults.
///
/// # Errors
/// When the file can't be read, or says something that is no option.
pub(crate) fn with_file(command: Command, arguments: &[OsString]) -> anyhow::Result<Command> {
    let Some(file) = file(arguments) else { return Ok(command) };
    let name = file.display();
    let text = std::fs::read_to_string(&file).with_context(|| format!("can't read --config {name}"))?;
    let table: Table = text.parse().with_context(|| format!("--config {name} is no TOML"))?;
    apply(command, &table).with_context(|| format!("--config {name}"))
}

fn file(arguments: &[OsString]) -> Option<PathBuf> {
    let mut rest = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = rest.next() {
        if argument == "--config" {
            return rest.next().map(PathBuf::from);
        }
        if let Some(file) = argument.to_str().and_then(|argument| argument.strip_prefix("--config=")) {
            return Some(PathBuf::from(file));
        }
    }
    let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(USUAL)).filter(|usual| usual.is_file()))
}

fn apply(mut command: Command, table: &Table) -> anyhow::Result<Command> {
    // What is said of one command wins over what is said of all, wherever it stands.
    let (of_one, of_all): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| value.is_table());
    for (key, value) in of_all.into_iter().chain(of_one) {
        if let Value::Table(options) = value {
            if command.find_subcommand(key).is_none() {
                bail!("there is no command {key:?}: tables are called like commands");
            }
            for (option, value) in options {
                let text = text(option, value)?;
                let mut known = false;
                command = command.mut_subcommand(key, |sub| preset(sub, option, &text, &mut known));
                if !known {
                    bail!("the command {key} has no option {option:?}: see tenure {key} --help");
                }
            }
        } else {
            let text = text(key, value)?;
            let mut known = false;
            command = preset(command, key, &text, &mut known);
            if !known {
                bail!("there is no option {key:?}: options are called as in --help, without dashes");
            }
        }
    }
    Ok(command)
}

fn text(key: &str, value: &Value) -> anyhow::Result<String> {
    Ok(match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        other => bail!("{key} is a {}: write a text, a number, true or false", other.type_str()),
    })
}

/// Makes a text the default of an option, here and in all commands below.
fn preset(command: Command, option: &str, text: &str, known: &mut bool) -> Command {
    let argument = command.get_arguments().find(|argument| argument.get_long() == Some(option));
    let found = argument.filter(|argument| {
        matches!(argument.get_action(), ArgAction::Set | ArgAction::SetTrue | ArgAction::Append)
    });
    let id = found.map(|argument| argument.get_id().clone());
    let mut command = match id {
        Some(id) => {
            *known = true;
            let text = text.to_owned();
            command.mut_arg(id, |argument| argument.default_value(text))
        }
        None => command,
    };
    let below: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    for name in below {
        command = command.mut_subcommand(name, |sub| preset(sub, option, text, known));
    }
    command
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn command() -> Command {
        let store = || Arg::new("store").long("store").default_value("usual");
        let open = Arg::new("open").long("open").action(ArgAction::SetTrue);
        Command::new("tenure")
            .subcommand(Command::new("status").arg(store()))
            .subcommand(Command::new("serve").arg(store()).arg(open))
    }

    fn parsed(text: &str, arguments: &[&str]) -> anyhow::Result<(String, bool)> {
        let matches = apply(command(), &text.parse()?)?.try_get_matches_from(arguments)?;
        let (name, matches) = matches.subcommand().unwrap();
        let store = matches.get_one::<String>("store").unwrap().clone();
        Ok((store, name == "serve" && matches.get_flag("open")))
    }

    #[test]
    fn a_file_says_what_nobody_else_says() {
        let text = "store = 'all'\n[serve]\nstore = 'one'\nopen = true";
        assert_eq!(parsed("", &["tenure", "status"]).unwrap().0, "usual");
        assert_eq!(parsed(text, &["tenure", "status"]).unwrap().0, "all");
        assert_eq!(parsed(text, &["tenure", "serve"]).unwrap(), ("one".to_owned(), true));
        assert_eq!(parsed(text, &["tenure", "serve", "--store", "mine"]).unwrap().0, "mine");
    }

    #[test]
    fn what_is_no_option_is_named() {
        let wrong = [
            ("stor = 'x'", "stor"),
            ("[serv]\nopen = true", "serv"),
            ("[serve]\nlisten = 'x'", "listen"),
            ("store = ['x']", "array"),
        ];
        for (text, named) in wrong {
            let refusal = format!("{:#}", parsed(text, &["tenure", "status"]).unwrap_err());
            assert!(refusal.contains(named), "{refusal}");
        }
    }

    #[test]
    fn the_file_is_named_before_what_is_run() {
        let named = |arguments: &[&str]| {
            file(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
                .map(|file| file.display().to_string())
        };
        assert_eq!(named(&["run", "--config", "a.toml"]).as_deref(), Some("a.toml"));
        assert_eq!(named(&["run", "--config=b.toml"]).as_deref(), Some("b.toml"));
        assert_eq!(named(&["run", "--", "echo", "--config", "c.toml"]), None);
    }
}
