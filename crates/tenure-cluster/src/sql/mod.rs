//! Guards in SQL: what lets a transaction of anybody's, in any language, commit only within a term.
//!
//! # What it promises
//! A transaction on a user's own tables, in the database that the store is in, calls `tenure_guard(cluster, election, term)`. The call fails with
//! [`FENCED`] unless that term is current and its holder's session is there, and both stay so until the transaction has ended: a takeover, or the end
//! of the session, waits for it. In a Galera cluster, whichever comes second fails at its commit, if they came through two nodes.
//!
//! # What is durable and what is local
//! Durable: the function, made once by [`postgres_guard`] or [`mysql_guard`]. A guard itself is nothing but locks of one transaction.
//!
//! # Safety and liveness
//! Safety: the guard shares locks that every change of the office, and every deletion of the session, takes alone. Liveness: a guard takes its turn
//! behind whoever waits to change the office, so that a busy leader can be deposed; and heartbeats take none of these locks. But a takeover waits as long
//! as the longest guarded transaction, and with it whatever else is in its commit.
//!
//! # What the caller must do
//! Call it in a transaction, best as the last statement before `COMMIT`; roll back when it fails; keep transactions short.
//!
//! # What it never does
//! It never writes anything that stays, never commits, and never asks a clock.
//!
//! Its text relies on the tables of `tenure-postgres` and `tenure-mysql`, on the numbers of the former's locks, on [`Keys`](crate::Keys), and on the first 25 bytes
//! of what is stored of an election. Users find it explained in `docs/sql-guard.md`.

use tenure_store::StoreError;

/// The SQLSTATE of a refusal: the term is not current. On MySQL the transaction has been rolled back, on PostgreSQL it can only be.
pub const FENCED: &str = "TN001";

const POSTGRES: &str = include_str!("postgres.sql");
const MYSQL: &str = include_str!("mysql.sql");

/// A store's own limit: PostgreSQL cuts longer names off.
const SCHEMA_BYTES_MAX: usize = 63;

/// A store's own limit.
const PREFIX_BYTES_MAX: usize = 32;

/// The statements that make `tenure_guard(cluster text, election text, term bigint)` in the schema of a store on PostgreSQL, `tenure` by default. They may
/// be run again at any time. At the end stand, as a comment, the rights that callers need.
///
/// ```
/// assert!(tenure_cluster::sql::postgres_guard("office")?.contains("FUNCTION office.tenure_guard("));
/// # Ok::<(), tenure_store::StoreError>(())
/// ```
///
/// # Errors
/// [`StoreError::Invalid`] when this can't be the schema of a store.
pub fn postgres_guard(schema: &str) -> Result<String, StoreError> {
    if !is_plain(schema, SCHEMA_BYTES_MAX) || schema.starts_with("pg_") {
        return Err(StoreError::invalid(format!(
            "schema is {schema:?}: write up to {SCHEMA_BYTES_MAX} of a-z, 0-9 and _, not a digit first, nor pg_"
        )));
    }
    Ok(POSTGRES
        .replace("tenure.", &format!("{schema}."))
        .replace("'tenure'", &format!("'{schema}'"))
        .replace("SCHEMA tenure", &format!("SCHEMA {schema}")))
}

/// The statement that makes the procedure `tenure_guard(cluster, election, term)` beside the tables of a store on MySQL or MariaDB, for their prefix,
/// `tenure_` by default. It is one statement: programs send it as it is, the `mysql` program needs another `DELIMITER` around it. It may be run again
/// at any time; MySQL then keeps the procedure it has, until that is dropped.
///
/// ```
/// assert!(tenure_cluster::sql::mysql_guard("office_")?.contains("office_guard("));
/// # Ok::<(), tenure_store::StoreError>(())
/// ```
///
/// # Errors
/// [`StoreError::Invalid`] when this can't be the prefix of a store.
pub fn mysql_guard(prefix: &str) -> Result<String, StoreError> {
    if !is_plain(prefix, PREFIX_BYTES_MAX) {
        return Err(StoreError::invalid(format!(
            "prefix is {prefix:?}: write 1 to {PREFIX_BYTES_MAX} of a-z, 0-9 and _, not a digit first"
        )));
    }
    Ok(MYSQL.trim_end().replace("tenure_", prefix))
}

/// Whether a name needs no quoting anywhere: it becomes part of statements.
fn is_plain(name: &str, bytes_max: usize) -> bool {
    let letter = |c: char| c.is_ascii_lowercase() || c == '_';
    name.starts_with(letter)
        && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        && name.len() <= bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_the_store_are_put_in_everywhere() {
        let text = postgres_guard("office").unwrap();
        let rest =
            text.replace("tenure_guard", "").replace("than tenure:", "").replace("wherever tenure", "");
        assert_eq!(rest.matches("tenure").count(), 1, "only the first part of every key: {rest}");
        assert!(rest.contains("\"tenure\", the cluster"));
        assert!(text.contains("convert_to('office', 'UTF8')") && text.contains("'office.guarded'"));

        let text = mysql_guard("office_").unwrap();
        assert!(!text.contains("tenure") && text.contains("office_kv") && !text.ends_with(';'));
    }

    #[test]
    fn names_that_would_need_quotes_are_refused() {
        for name in ["", "1a", "a b", "A", "a;", "a'", "a\"", "a`", "ä", "a.b", "a-b", &"a".repeat(64)] {
            assert!(postgres_guard(name).is_err() && mysql_guard(name).is_err(), "{name}");
        }
        assert!(postgres_guard("pg_x").is_err() && mysql_guard(&"a".repeat(33)).is_err());
        assert!(postgres_guard(&"a".repeat(63)).is_ok() && mysql_guard(&"a".repeat(32)).is_ok());
    }

    /// MySQL's messages have at most 128 characters.
    #[test]
    fn messages_fit() {
        let texts = MYSQL.lines().filter_map(|line| line.split_once("MESSAGE_TEXT = '"));
        let lengths: Vec<usize> =
            texts.map(|(_, text)| text.trim_end_matches("';").chars().count()).collect();
        let most_added = PREFIX_BYTES_MAX - "tenure_".len();
        assert!(lengths.len() == 3 && lengths.iter().all(|length| length + most_added <= 128), "{lengths:?}");
    }
}
