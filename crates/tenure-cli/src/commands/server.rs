//! `tenure server`

use std::{
    io::{self, Read as _},
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde_json::Value;
use tenure::{
    cluster::Onlooker,
    server::{AnyServer, CallOptions, IDEMPOTENCY_KEY_BYTES_MAX, Json, Survey as _},
    store::Name,
};

use super::{Common, servers::servers_text};
use crate::{
    exit::Exit,
    options::{StoreOptions, duration, name},
    output::{Confirm, Table, utc},
    views::{Attempt, DeadLetter, Items, Operated, Reply, Server},
};

/// How many dead letters are told, or treated, at once.
const PAGE: usize = 1000;

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// Show one server
    Show(Which),
    Call(CallCommand),
    Cast(CastCommand),
    DeadLetters(DeadLettersCommand),
    Replay(LettersCommand),
    Drop(DropCommand),
    Unlock(ChangeCommand),
    Delete(DeleteCommand),
}

/// Which server.
#[derive(Args, Clone, Debug)]
pub(crate) struct Which {
    /// Its kind
    #[arg(value_parser = name)]
    kind: Name,

    /// Its name
    #[arg(value_parser = name)]
    id: Name,

    #[command(flatten)]
    common: Common,
}

/// Ask a server, and print its answer
#[derive(Args, Clone, Debug)]
#[command(after_help = MESSAGES)]
pub(crate) struct CallCommand {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    message: Message,

    /// How long to wait for the answer
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = duration)]
    timeout: Duration,

    /// Makes a repeated call return the first answer
    #[arg(long, value_name = "KEY", value_parser = idempotency_key)]
    key: Option<String>,
}

/// Send to a server; it is durable when this ends
#[derive(Args, Clone, Debug)]
#[command(after_help = MESSAGES)]
pub(crate) struct CastCommand {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    message: Message,
}

const MESSAGES: &str = "\
Messages are JSON as the server's own types read it: enums by the names of their variants, structs by those of their fields.

  tenure server call counter visits '{\"Add\": 1}'
  echo '\"Reset\"' | tenure server cast counter visits -";

/// What is said.
#[derive(Args, Clone, Debug)]
struct Message {
    /// JSON; - reads it from standard input
    #[arg(value_name = "MESSAGE", value_parser = message, allow_hyphen_values = true)]
    message: Value,

    /// Past the queue
    #[arg(long)]
    priority: bool,
}

/// Show messages that failed as often as they might
#[derive(Args, Clone, Debug)]
pub(crate) struct DeadLettersCommand {
    #[command(flatten)]
    which: Which,

    /// Only those behind this number
    #[arg(long, value_name = "NUMBER", value_parser = number)]
    after: Option<u64>,

    /// How many at most
    #[arg(long, value_name = "N", default_value_t = PAGE, value_parser = super::limit)]
    limit: usize,
}

/// Put dead letters back into the queue, to be tried as if they were new
#[derive(Args, Clone, Debug)]
pub(crate) struct LettersCommand {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    letters: Letters,
}

/// Remove dead letters for good
#[derive(Args, Clone, Debug)]
pub(crate) struct DropCommand {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    letters: Letters,

    #[command(flatten)]
    confirm: Confirm,
}

/// Which dead letters.
#[derive(Args, Clone, Debug)]
struct Letters {
    /// Their numbers, as tenure server dead-letters tells them
    #[arg(required_unless_present = "all", value_name = "NUMBER", value_parser = number)]
    numbers: Vec<u64>,

    /// All that there are
    #[arg(long, conflicts_with = "numbers")]
    all: bool,
}

/// Take the claim from whoever does locked work, so that it is done again
#[derive(Args, Clone, Debug)]
pub(crate) struct ChangeCommand {
    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    confirm: Confirm,
}

/// Delete a server, with its state, its queue and its dead letters
#[derive(Args, Clone, Debug)]
pub(crate) struct DeleteCommand {
    #[command(flatten)]
    change: ChangeCommand,
}

fn message(text: &str) -> Result<Value, String> {
    let mut read = String::new();
    let text = match text {
        "-" => {
            io::stdin()
                .read_to_string(&mut read)
                .map_err(|error| format!("can't read standard input: {error}"))?;
            &read
        }
        text => text,
    };
    serde_json::from_str(text)
        .map_err(|error| format!("it is no JSON: {error}; texts need quotes of their own, as in '\"Reset\"'"))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write its number, as tenure server dead-letters tells it".to_owned())
}

fn idempotency_key(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(format!("it has {} bytes: write 1 to {IDEMPOTENCY_KEY_BYTES_MAX}", text.len()));
    }
    Ok(text.to_owned())
}

pub(crate) async fn perform(command: ServerCommand) -> anyhow::Result<Exit> {
    match command {
        ServerCommand::Show(which) => show(which).await,
        ServerCommand::Call(command) => call(command).await,
        ServerCommand::Cast(CastCommand { which, message: Message { message, priority } }) => {
            visit(&which, async |server| Ok(server.cast(Json(message), priority).await?)).await?;
            which.done("sent", Vec::new())
        }
        ServerCommand::DeadLetters(command) => dead_letters(command).await,
        ServerCommand::Replay(LettersCommand { which, letters }) => {
            let numbers = letters.numbers(&which).await?;
            treat(&which, numbers, "replayed", async |server, number| Ok(server.replay(number).await?)).await
        }
        ServerCommand::Drop(DropCommand { which, letters, confirm }) => {
            confirm.must_be_possible()?;
            let numbers = letters.numbers(&which).await?;
            let count = numbers.len();
            confirm.ask(&format!("Remove {count} dead letters of {} for good?", which.id))?;
            treat(&which, numbers, "dropped", async |server, number| {
                Ok(server.drop_dead_letter(number).await?)
            })
            .await
        }
        ServerCommand::Unlock(ChangeCommand { which, confirm }) => {
            confirm.must_be_possible()?;
            let server = which.find().await?;
            if !server.locked {
                return Err(Exit::Undone
                    .context(format!("no locked work is being done for {}", which.id))
                    .into());
            }
            confirm.ask(&format!(
                "Take the claim from whoever does locked work for {}? It is done again",
                which.id
            ))?;
            if !visit(&which, async |server| Ok(server.unlock().await?)).await? {
                return Err(Exit::Undone
                    .context(format!("the locked work for {} has ended by now", which.id))
                    .into());
            }
            which.done("unlocked", Vec::new())
        }
        ServerCommand::Delete(DeleteCommand { change: ChangeCommand { which, confirm } }) => {
            confirm.must_be_possible()?;
            let Server { waiting, dead_letters, .. } = which.find().await?;
            confirm.ask(&format!(
                "Delete {} of kind {}, with its state, {waiting} messages that wait and {dead_letters} dead letters?",
                which.id, which.kind
            ))?;
            if !visit(&which, async |server| Ok(server.delete().await?)).await? {
                return Err(which.absent());
            }
            which.done("deleted", Vec::new())
        }
    }
}

impl Which {
    /// The server, as it is.
    async fn find(&self) -> anyhow::Result<Server> {
        let look = self.common.store.look().await?;
        let seen = look.server(&self.kind, &self.id).await?.ok_or_else(|| self.absent())?;
        Ok(Server::new(&self.kind, seen))
    }

    fn absent(&self) -> anyhow::Error {
        let Self { kind, id, .. } = self;
        Exit::Absent
            .context(format!("there is no server {id} of kind {kind}: see tenure servers {kind}"))
            .into()
    }

    /// Tells what was done.
    fn done(&self, done: &str, dead_letters: Vec<u64>) -> anyhow::Result<Exit> {
        let (kind, id) = (self.kind.to_string(), self.id.to_string());
        let operated = Operated { kind, id, done: done.to_owned(), dead_letters };
        self.common.output.print(&operated, |operated| match operated.dead_letters.len() {
            0 => format!("{}\n", operated.done),
            1 => format!("{} 1 dead letter\n", operated.done),
            count => format!("{} {count} dead letters\n", operated.done),
        })?;
        Ok(Exit::DONE)
    }

    /// Dead letters behind `after`: a store tells no more than a page at once.
    async fn letters(
        &self,
        look: &Onlooker,
        mut after: Option<u64>,
        limit: usize,
    ) -> anyhow::Result<Vec<tenure::server::DeadLetter>> {
        let mut letters = Vec::new();
        while letters.len() < limit {
            let wanted = (limit - letters.len()).min(PAGE);
            let page = look.dead_letters(&self.kind, &self.id, after, wanted).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.number);
            letters.extend(page);
        }
        Ok(letters)
    }
}

impl Letters {
    async fn numbers(self, which: &Which) -> anyhow::Result<Vec<u64>> {
        which.find().await?;
        if !self.all {
            return Ok(self.numbers);
        }
        let look = which.common.store.look().await?;
        let letters = which.letters(&look, None, usize::MAX).await?;
        if letters.is_empty() {
            return Err(Exit::Absent.context(format!("server {} has no dead letters", which.id)).into());
        }
        Ok(letters.iter().map(|letter| letter.number).collect())
    }
}

async fn show(which: Which) -> anyhow::Result<Exit> {
    let server = which.find().await?;
    which.common.output.print(&server, |server| servers_text(std::slice::from_ref(server)))?;
    Ok(Exit::DONE)
}

async fn call(CallCommand { which, message, timeout, key }: CallCommand) -> anyhow::Result<Exit> {
    let mut options = CallOptions::default().timeout(timeout);
    options.idempotency_key = key;
    let Message { message, priority } = message;
    let reply =
        visit(&which, async |server| Ok(server.call(Json(message), options, priority).await?)).await?;
    which.common.output.print(&Reply { reply: reply.0 }, |reply| format!("{:#}\n", reply.reply))?;
    Ok(Exit::DONE)
}

async fn dead_letters(command: DeadLettersCommand) -> anyhow::Result<Exit> {
    let DeadLettersCommand { which, after, limit } = command;
    which.find().await?;
    let look = which.common.store.look().await?;
    let letters = which.letters(&look, after, limit + 1).await?;
    let letters = letters.iter().map(DeadLetter::from).collect();
    let page = Items::page(letters, limit, |letter: &DeadLetter| letter.number.to_string());
    which.common.output.print(&page, |page| {
        let mut table = Table::new(&["number", "sort", "died", "tries", "node", "error", "message"]);
        for letter in &page.items {
            let (node, error) = letter
                .attempts
                .last()
                .map_or_else(Default::default, |last: &Attempt| (last.node.clone(), last.error.clone()));
            table.row([
                letter.number.to_string(),
                if letter.is_call { "call" } else { "cast" }.to_owned(),
                utc(letter.died_ms),
                letter.attempts.len().to_string(),
                node,
                error,
                letter.message.to_string(),
            ]);
        }
        let more = page.next.as_ref().map(|next| format!("there are more: --after {next}\n"));
        table.text("no dead letters") + &more.unwrap_or_default()
    })?;
    Ok(Exit::DONE)
}

/// Treats dead letters one by one; those before one that is not there have been treated.
async fn treat(
    which: &Which,
    numbers: Vec<u64>,
    done: &str,
    treat: impl AsyncFn(&AnyServer, u64) -> anyhow::Result<bool>,
) -> anyhow::Result<Exit> {
    let absent = visit(which, async |server| {
        for number in &numbers {
            if !treat(server, *number).await.with_context(|| format!("dead letter {number}"))? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    })
    .await?;
    if let Some(number) = absent {
        let before = numbers.iter().take_while(|other| **other != number).count();
        let words =
            format!("server {} has no dead letter {number}; {before} before it were {done}", which.id);
        return Err(Exit::Absent.context(words).into());
    }
    which.done(done, numbers)
}

/// Does something with a server, as a node that takes part for so long.
async fn visit<T>(
    which: &Which,
    act: impl AsyncFnOnce(&AnyServer) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let store: &StoreOptions = &which.common.store;
    let cluster = store.visit().await?;
    let done = match AnyServer::new(&cluster, which.kind.as_str(), which.id.as_str()) {
        Ok(server) => act(&server).await,
        Err(error) => Err(error.into()),
    };
    cluster.leave().await;
    done
}
