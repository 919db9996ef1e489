//! The statements: how a read is answered and how a commit is made on a connection.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use tenure_store::{
    Answer, Check, Commit, Conflict, Entry, EntryId, Item, Key, Limits, Page, Range, Read, StoreError,
    Version, Versioned, Write,
};

use crate::error::store_error;

/// How many places for entries a version has: more than a commit may have operations.
const ENTRIES_PER_VERSION: i64 = 1 << 16;

/// Answers all questions on one snapshot.
pub(crate) fn answer(connection: &mut Connection, reads: &[Read]) -> Result<Vec<Answer>, StoreError> {
    let mut answers = || -> rusqlite::Result<Vec<Answer>> {
        // One statement is one snapshot by itself.
        if let [read] = reads {
            return Ok(vec![answer_one(connection, read)?]);
        }
        // A transaction that only reads starts with its first question and sees the database as of then.
        let transaction = connection.transaction()?;
        let answers = reads.iter().map(|read| answer_one(&transaction, read)).collect::<Result<_, _>>()?;
        transaction.commit()?;
        Ok(answers)
    };
    answers().map_err(|error| store_error("read", error))
}

fn answer_one(connection: &Connection, read: &Read) -> rusqlite::Result<Answer> {
    match read {
        Read::Key(key) => {
            let mut query = connection.prepare_cached("SELECT value, version FROM kv WHERE key = ?1")?;
            let found = |row: &Row<'_>| Ok(Versioned { value: bytes(row, 0)?, version: version(row, 1)? });
            query.query_row([key.as_bytes()], found).optional().map(Answer::Key)
        }
        Read::Range { range, limit } => items(connection, range, *limit).map(Answer::Range),
        Read::List { list, after, limit } => {
            let mut query = connection.prepare_cached(
                "SELECT id, value FROM entries WHERE list = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            )?;
            // Every id is above this one; those of another form were refused by `Read::admit_numbered`.
            let after = after.as_ref().and_then(entry_number).unwrap_or(-1);
            let rows = query.query_map(params![list.as_bytes(), after, one_more(*limit)], |row| {
                Ok(Entry { id: entry_id(row.get(0)?), value: bytes(row, 1)? })
            })?;
            Page::gather(rows, *limit, Limits::EMBEDDED.page_bytes).map(Answer::List)
        }
    }
}

fn items(connection: &Connection, range: &Range, limit: usize) -> rusqlite::Result<Page<Item>> {
    let item = |row: &Row<'_>| {
        Ok(Item { key: Key::new(bytes(row, 0)?), value: bytes(row, 1)?, version: version(row, 2)? })
    };
    let (start, bytes) = (range.start().as_bytes(), Limits::EMBEDDED.page_bytes);
    match range.end() {
        Some(end) => {
            let query =
                "SELECT key, value, version FROM kv WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
            let mut query = connection.prepare_cached(query)?;
            Page::gather(
                query.query_map(params![start, end.as_bytes(), one_more(limit)], item)?,
                limit,
                bytes,
            )
        }
        None => {
            let query = "SELECT key, value, version FROM kv WHERE key >= ?1 ORDER BY key LIMIT ?2";
            let mut query = connection.prepare_cached(query)?;
            Page::gather(query.query_map(params![start, one_more(limit)], item)?, limit, bytes)
        }
    }
}

/// The version of the last commit.
pub(crate) fn last_version(connection: &Connection) -> rusqlite::Result<u64> {
    let mut query = connection.prepare_cached("SELECT max(version) FROM changes")?;
    query.query_row([], |row| row.get(0))
}

/// Makes a commit within the transaction that is under way: all of it, or, if a check does not hold, nothing.
pub(crate) fn apply(
    connection: &Connection,
    commit: &Commit,
    version: u64,
) -> rusqlite::Result<Result<(), Conflict>> {
    for (index, check) in commit.checks.iter().enumerate() {
        if !holds(connection, check)? {
            return Ok(Err(Conflict::Check { index, key: check.key().clone() }));
        }
    }
    for (index, write) in commit.writes.iter().enumerate() {
        make(connection, write, version, index)?;
    }
    Ok(Ok(()))
}

fn holds(connection: &Connection, check: &Check) -> rusqlite::Result<bool> {
    let found = |key: &Key| -> rusqlite::Result<Option<u64>> {
        let mut query = connection.prepare_cached("SELECT version FROM kv WHERE key = ?1")?;
        query.query_row([key.as_bytes()], |row| row.get(0)).optional()
    };
    Ok(match check {
        Check::Version(key, version) => found(key)? == Some(version.0),
        Check::Absent(key) => found(key)?.is_none(),
        Check::Present(key) => found(key)?.is_some(),
        Check::Empty(list) => !connection
            .prepare_cached("SELECT 1 FROM entries WHERE list = ?1 LIMIT 1")?
            .exists([list.as_bytes()])?,
    })
}

fn make(connection: &Connection, write: &Write, version: u64, index: usize) -> rusqlite::Result<()> {
    match write {
        Write::Set(key, value) => {
            let upsert = "INSERT INTO kv (key, version, value) VALUES (?1, ?2, ?3)
                ON CONFLICT (key) DO UPDATE SET version = excluded.version, value = excluded.value";
            connection.prepare_cached(upsert)?.execute(params![key.as_bytes(), version, &value[..]])?;
        }
        Write::Delete(key) => {
            connection.prepare_cached("DELETE FROM kv WHERE key = ?1")?.execute([key.as_bytes()])?;
        }
        Write::DeleteRange(range) => delete_range(connection, range)?,
        Write::Append(list, value) => {
            let id = i64::try_from(version).ok().and_then(|version| version.checked_mul(ENTRIES_PER_VERSION));
            let id = id.and_then(|base| base.checked_add(i64::try_from(index).ok()?));
            let id = id.expect("2^47 commits are centuries of them");
            let insert = "INSERT INTO entries (list, id, value) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(insert)?.execute(params![list.as_bytes(), id, &value[..]])?;
        }
        Write::Remove(list, id) => {
            // An id of another length was never given by this store, so no such entry is there.
            if let Some(id) = entry_number(id) {
                let delete = "DELETE FROM entries WHERE list = ?1 AND id = ?2";
                connection.prepare_cached(delete)?.execute(params![list.as_bytes(), id])?;
            }
        }
    }
    Ok(())
}

fn delete_range(connection: &Connection, range: &Range) -> rusqlite::Result<()> {
    let start = range.start().as_bytes();
    match range.end() {
        Some(end) => {
            let bounds = params![start, end.as_bytes()];
            connection.prepare_cached("DELETE FROM kv WHERE key >= ?1 AND key < ?2")?.execute(bounds)?;
            connection
                .prepare_cached("DELETE FROM entries WHERE list >= ?1 AND list < ?2")?
                .execute(bounds)?;
        }
        None => {
            connection.prepare_cached("DELETE FROM kv WHERE key >= ?1")?.execute([start])?;
            connection.prepare_cached("DELETE FROM entries WHERE list >= ?1")?.execute([start])?;
        }
    }
    Ok(())
}

fn bytes(row: &Row<'_>, column: usize) -> rusqlite::Result<Bytes> {
    row.get::<_, Vec<u8>>(column).map(Bytes::from)
}

fn version(row: &Row<'_>, column: usize) -> rusqlite::Result<Version> {
    row.get(column).map(Version)
}

/// One more than asked for, to see whether there is more.
fn one_more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

fn entry_id(number: i64) -> EntryId {
    EntryId::numbered(number.cast_unsigned())
}

fn entry_number(id: &EntryId) -> Option<i64> {
    id.number().map(u64::cast_signed)
}
