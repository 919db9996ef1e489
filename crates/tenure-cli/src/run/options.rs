//! [`RunOptions`]: the options of `tenure run`.

use std::{ffi::OsString, time::Duration};

use clap::{Args, ValueEnum};
use tenure::store::StoreError;
use tenure_singleton::{Policy, Restart};

use crate::options::{StoreOptions, duration, host_and_process};

/// Run a command on the leader: on one node at a time, and never two.
#[derive(Args, Clone, Debug)]
#[command(long_about = ABOUT, after_help = EXIT_CODES)]
pub(crate) struct RunOptions {
    /// The election: nodes that give one name share one command
    pub(crate) name: String,

    /// The command, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) store: StoreOptions,

    /// What this node is called; no other may be called so [default: host and process]
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,

    /// How long leadership outlasts a node that is cut off
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = duration)]
    pub(crate) ttl: Duration,

    /// How long the command has to end when it is asked to, by SIGTERM, before it is killed [default: a quarter of the ttl]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) grace: Option<Duration>,

    /// When a command that has ended is started again
    #[arg(long, value_name = "WHEN", value_enum, default_value = "never")]
    pub(crate) restart: RestartOption,

    /// Stand before nodes of less priority
    #[arg(long, value_name = "N", default_value = "0", allow_negative_numbers = true)]
    pub(crate) priority: i32,

    /// Let somebody else decide who leads: the URL of an oracle
    #[arg(long, value_name = "URL")]
    pub(crate) oracle: Option<String>,

    /// Wait until this node leads (the default)
    #[arg(long, conflicts_with_all = ["no_wait", "timeout"])]
    pub(crate) wait: bool,

    /// Give up at once if another node leads
    #[arg(long, conflicts_with = "timeout")]
    pub(crate) no_wait: bool,

    /// Give up if this node does not lead after so long
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,

    /// Tell what happens as JSON, one object a line, on standard error
    #[arg(long)]
    pub(crate) json: bool,

    /// Tell nothing
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RestartOption {
    Never,
    OnFailure,
    Always,
}

const ABOUT: &str = "\
Run a command on the leader: on one node at a time, and never two.

The command is started when this node leads the election NAME, and has ended before any other can be started. \
It finds TENURE_NAME, TENURE_NODE, TENURE_TERM (the fencing token: give it to whatever the command writes to) and TENURE_STORE in its environment. \
It runs in a process group of its own, and must not read from a terminal. What it leaves behind is ended with it: a program that goes into the background must be told not to.";

const EXIT_CODES: &str = "\
Exit codes:
  0-255  the command's own; 128 + N if signal N ended it
  2      wrong arguments
  100    this node did not lead in time (--no-wait, --timeout)
  101    leadership was lost, and the command was ended (--restart never)
  102    the store could not be reached at the start
  103    the guardian was lost, and the command was ended (--restart never)
  126    the command could not be run
  127    the command was not found";

/// How long `--no-wait` waits for an answer that says who leads: of our own election, which was joined before, and of an oracle, which may have to be connected to first.
const AT_ONCE: Duration = Duration::from_millis(500);
const AT_ONCE_OF_AN_ORACLE: Duration = Duration::from_secs(5);

impl RunOptions {
    /// How the command is treated.
    pub(crate) fn policy(&self) -> Result<Policy, StoreError> {
        let mut policy = Policy::default();
        policy.grace = self.grace.unwrap_or(self.ttl / 4);
        policy.restart = match self.restart {
            RestartOption::Never => Restart::Never,
            RestartOption::OnFailure => Restart::OnFailure,
            RestartOption::Always => Restart::Always,
        };
        let (grace, ttl) = (policy.grace, self.ttl);
        if grace * 3 > ttl {
            return Err(StoreError::invalid(format!(
                "grace x 3 <= ttl must hold, but there is --grace {grace:?} and --ttl {ttl:?}: use a shorter grace, or a longer ttl"
            )));
        }
        policy.validate()?;
        Ok(policy)
    }

    /// What this node is called.
    pub(crate) fn node(&self) -> String {
        self.node.clone().unwrap_or_else(host_and_process)
    }

    /// What the command finds in its environment; the term comes with each start.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("TENURE_NAME", self.name.clone()),
            ("TENURE_NODE", self.node()),
            ("TENURE_STORE", self.store.store.clone()),
        ]
    }

    /// How long to wait for leadership, if not for ever.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let at_once = if self.oracle.is_some() { AT_ONCE_OF_AN_ORACLE } else { AT_ONCE };
        if self.no_wait { Some(at_once) } else { self.timeout }
    }
}
