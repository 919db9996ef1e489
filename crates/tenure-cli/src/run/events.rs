//! [`Events`]: tells what happens, to people or to programs.

use std::io::{self, Write as _};

use serde_json::{Map, Value, json};
use tenure::store::Env;

use super::RunOptions;

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Waiting,
    Denied { holder: Option<String> },
    Unknown { reason: String },
    Leading { term: Option<u64> },
    Started { id: i32 },
    NotStarted { why: String },
    Asked { to: Option<String> },
    Stopping,
    Exited { code: u8 },
    Lost,
    Unguarded { reason: String },
    Released,
}

impl Event {
    /// Its word, and what belongs to it.
    fn parts(&self) -> (&'static str, Vec<(&'static str, Value)>) {
        match self {
            Self::Waiting => ("waiting", vec![]),
            Self::Denied { holder } => ("denied", vec![("holder", json!(holder))]),
            Self::Unknown { reason } => ("unknown", vec![("reason", json!(reason))]),
            Self::Leading { term } => ("leading", vec![("term", json!(term))]),
            Self::Started { id } => ("started", vec![("process", json!(id))]),
            Self::NotStarted { why } => ("not-started", vec![("reason", json!(why))]),
            Self::Asked { to } => ("asked", vec![("to", json!(to))]),
            Self::Stopping => ("stopping", vec![]),
            Self::Exited { code } => ("exited", vec![("code", json!(code))]),
            Self::Lost => ("lost", vec![]),
            Self::Unguarded { reason } => ("unguarded", vec![("reason", json!(reason))]),
            Self::Released => ("released", vec![]),
        }
    }
}

/// How it is told.
#[derive(Debug)]
pub(crate) struct Events {
    name: String,
    node: String,
    style: Style,
    env: Env,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Words,
    Json,
    Nothing,
}

impl Events {
    pub(crate) fn new(options: &RunOptions) -> Self {
        let style = match options {
            RunOptions { json: true, .. } => Style::Json,
            RunOptions { quiet: true, .. } => Style::Nothing,
            _ => Style::Words,
        };
        Self { name: options.name.clone(), node: options.node(), style, env: Env::system() }
    }

    /// Tells it on standard error, which the command shares; standard output is the command's alone.
    pub(crate) fn tell(&self, event: &Event) {
        let (word, parts) = event.parts();
        let line = match self.style {
            Style::Nothing => return,
            Style::Words => {
                let parts: String = parts
                    .iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(key, value)| format!(", {key} {value}"))
                    .collect();
                format!("tenure: {}: {word}{parts}\n", self.name)
            }
            Style::Json => {
                let mut object = Map::new();
                object.insert("event".into(), json!(word));
                object.insert("name".into(), json!(self.name));
                object.insert("node".into(), json!(self.node));
                object.insert(
                    "unix_ms".into(),
                    json!(u64::try_from(self.env.unix_time().as_millis()).unwrap_or(u64::MAX)),
                );
                object.extend(parts.into_iter().map(|(key, value)| (key.to_owned(), value)));
                format!("{}\n", Value::Object(object))
            }
        };
        // Nobody may be there to read it.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}
