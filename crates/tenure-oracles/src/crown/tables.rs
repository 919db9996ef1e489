//! [`Tables`]: what they are called, and how they come to be.

use tokio_postgres::{error::SqlState, types::Type};

use crate::postgres::{Database, Failure, Parameter, quoted};

/// The tables' names, as they are written in statements.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) leases: String,
    pub(super) terms: String,
}

impl Tables {
    pub(super) fn new(schema: Option<&str>) -> Self {
        let schema = schema.map(|schema| format!("{}.", quoted(schema))).unwrap_or_default();
        Self { leases: format!("{schema}crown_lease_v1"), terms: format!("{schema}tenure_crown_terms") }
    }

    /// Crown's own table.
    fn leases_ddl(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} \
             (lock_name text PRIMARY KEY, holder text NOT NULL, expires_at timestamptz NOT NULL)",
            self.leases
        )
    }

    fn terms_ddl(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (lock_name text PRIMARY KEY, term bigint NOT NULL)",
            self.terms
        )
    }
}

/// Finds the tables, or makes them; returns whether terms can be counted.
pub(super) async fn find_or_make(database: &mut Database, tables: &Tables) -> Result<bool, Failure> {
    if !is_there(database, &tables.leases).await? {
        make_leases(database, tables).await?;
    }
    if !is_there(database, &tables.terms).await? {
        match make(database, &tables.terms_ddl()).await {
            Err(failure) if failure.is(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                // Perhaps somebody else has made it meanwhile.
                if !is_there(database, &tables.terms).await? {
                    let ddl = tables.terms_ddl();
                    tracing::info!("there will be no fencing tokens, since {failure}. For them, run: {ddl}");
                    return Ok(false);
                }
            }
            made => made?,
        }
    }
    let usable = may_count(database, tables).await?;
    if !usable {
        let (terms, user) = (&tables.terms, quoted(database.user()));
        tracing::info!(
            "there will be no fencing tokens. For them, run: GRANT SELECT, INSERT, UPDATE ON {terms} TO {user}"
        );
    }
    Ok(usable)
}

async fn make_leases(database: &mut Database, tables: &Tables) -> Result<(), Failure> {
    let made = make(database, &tables.leases_ddl()).await;
    let Err(failure) = made else { return Ok(()) };
    if !failure.is(&SqlState::INSUFFICIENT_PRIVILEGE) {
        return Err(failure);
    }
    if is_there(database, &tables.leases).await? {
        return Ok(());
    }
    let (user, leases, ddl) = (quoted(database.user()), &tables.leases, tables.leases_ddl());
    Err(failure.advise(format!(
        "there is no table {leases}, and user {user} may not make it. Grant it CREATE on the schema, or run as \
         somebody who may: {ddl}; GRANT SELECT, INSERT, UPDATE, DELETE ON {leases} TO {user}"
    )))
}

/// Makes a table. That another session made it at the same time is as good, in whichever way PostgreSQL says so.
async fn make(database: &mut Database, ddl: &str) -> Result<(), Failure> {
    let there = [SqlState::UNIQUE_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::DUPLICATE_OBJECT];
    match database.query("make a table for leases of Crown", ddl, &[]).await {
        Err(failure) if there.iter().any(|code| failure.is(code)) => Ok(()),
        made => made.map(drop),
    }
}

async fn is_there(database: &mut Database, table: &str) -> Result<bool, Failure> {
    let parameters: [Parameter<'_>; 1] = [(&table, Type::TEXT)];
    let statement = "SELECT to_regclass($1) IS NOT NULL";
    let rows = database.query("look for the tables of Crown", statement, &parameters).await?;
    Ok(rows.first().map_or(Ok(false), |row| row.try_get(0))?)
}

/// Whether we have the rights that counting takes.
async fn may_count(database: &mut Database, tables: &Tables) -> Result<bool, Failure> {
    let parameters: [Parameter<'_>; 1] = [(&tables.terms, Type::TEXT)];
    let statement = "SELECT has_table_privilege($1, 'SELECT') AND has_table_privilege($1, 'INSERT') \
        AND has_table_privilege($1, 'UPDATE')";
    let rows = database.query("look at the rights on the terms of Crown", statement, &parameters).await?;
    Ok(rows.first().map_or(Ok(false), |row| row.try_get(0))?)
}
