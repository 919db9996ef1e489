//! `tenure schema`

use clap::{Args, Subcommand};

use super::Common;
use crate::{exit::Exit, options::StoreOptions, output::say, serve, views::StoreSchema};

#[derive(Debug, Subcommand)]
pub(crate) enum SchemaCommand {
    Print(PrintOptions),
    /// Print the `OpenAPI` document: the daemon's routes, and every shape that --json prints
    Api,
}

/// Print what a store needs created, for whoever may create it
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Nothing is connected to. A role that may create tables needs none of this: the first node creates them.

  tenure schema print --store postgres://host/db?schema=office | psql -h host db")]
pub(crate) struct PrintOptions {
    #[command(flatten)]
    common: Common,
}

pub(crate) fn perform(command: SchemaCommand) -> anyhow::Result<Exit> {
    match command {
        SchemaCommand::Print(options) => print(&options.common),
        SchemaCommand::Api => {
            say(&format!("{}\n", serve::document().to_pretty_json()?))?;
            Ok(Exit::DONE)
        }
    }
}

fn print(common: &Common) -> anyhow::Result<Exit> {
    let schema = schema(&common.store)?;
    common.output.print(&schema, |schema| match &schema.sql {
        Some(sql) => format!("-- {}\n\n{}\n", schema.note, sql.trim_end()),
        None => format!("-- {}\n", schema.note),
    })?;
    Ok(Exit::DONE)
}

fn schema(store: &StoreOptions) -> anyhow::Result<StoreSchema> {
    let url = &store.store;
    let (sql, note) = match store.kind() {
        "postgres" | "postgresql" => {
            let settings = tenure::postgres::Settings::from_url(url)?;
            let sql = tenure::postgres::ddl(&settings.schema)?;
            (Some(sql), format!("For psql, in database {}.", settings.database))
        }
        "mysql" | "mariadb" => {
            let settings = tenure::mysql::Settings::from_url(url)?;
            let sql = tenure::mysql::ddl(&settings.prefix)?;
            (Some(sql), format!("For the program mysql, in database {}.", settings.database))
        }
        "sqlite" => (None, "SQLite needs nothing created: whoever opens the file first makes it.".to_owned()),
        "etcd" => (None, "etcd has no schema: nothing needs to be created.".to_owned()),
        "memory" => (None, "A store in memory has no schema.".to_owned()),
        other => anyhow::bail!(
            "no store goes by the scheme {other:?}: write postgres://..., mysql://..., sqlite:path or etcd://..."
        ),
    };
    Ok(StoreSchema { store: store.kind().to_owned(), sql, note })
}
