//! The schema of the store: what is in it, and how it comes to be there.

use tenure_store::{Reason, StoreError};
use tokio_postgres::{error::SqlState, types::Type};

use crate::{
    apply::lock_id,
    connection::{Connector, Link},
    error::{is_missing, store_error},
    settings::admit_schema,
};

/// The layout that this release makes and understands.
const LAYOUT: i32 = 1;

/// The statements that make the store in this schema, for whoever may run them: the role that opens the store need not. At the end
/// stand, as a comment, the rights that role needs.
///
/// # Errors
/// [`StoreError::Invalid`] when this can't be the name of a schema.
pub fn ddl(schema: &str) -> Result<String, StoreError> {
    admit_schema(schema)?;
    Ok(format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};\n\n{}\n{}",
        TABLES.replace("{schema}", schema).trim_start(),
        RIGHTS.replace("{schema}", schema).trim_start()
    ))
}

const TABLES: &str = r"
-- Keys. Room is left in each page, so that an overwrite stays in its page and needs no new index entry.
CREATE TABLE {schema}.kv (
    key bytea PRIMARY KEY,
    value bytea NOT NULL,
    version bigint NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Entries of lists. What was taken from the head is in the way of the next reader until it is vacuumed.
CREATE TABLE {schema}.entries (
    list bytea NOT NULL,
    id bigint NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (list, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);

-- A version for each commit. Without a cache, since versions must grow across connections.
CREATE SEQUENCE {schema}.versions CACHE 1;

-- The processes that want to be told of changes. Unlogged: who listens on a crashed server listens anew.
CREATE UNLOGGED TABLE {schema}.listeners (
    id bigint PRIMARY KEY,
    pid integer NOT NULL
);

-- A commit. Answers with its version; 0 if it had nothing to write; -n if its nth check did not hold.
-- What it has none of is NULL. A lock is its number times two, and one more if it is exclusive. A check is of the version that it wants, or
-- -1 that a key is absent, -2 that it is present, -3 that a list is empty.
CREATE FUNCTION {schema}.apply(
    process bigint,
    locks bigint[],
    check_names bytea[], check_wants bigint[],
    set_keys bytea[], set_values bytea[],
    delete_keys bytea[],
    range_starts bytea[], range_ends bytea[],
    append_lists bytea[], append_values bytea[],
    remove_lists bytea[], remove_ids bigint[],
    OUT outcome bigint, OUT heard boolean
) LANGUAGE plpgsql
-- Tables may have been small when a plan was made.
SET enable_seqscan = off
AS $apply$
#variable_conflict use_column
DECLARE
    held boolean;
    found_version bigint;
BEGIN
    heard := false;
    -- At a higher level the statements below would not see what was committed while the locks were waited for.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a commit of the store needs the isolation level read committed'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    -- What is acknowledged is durable, whatever the default of this database.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;

    FOR i IN 1 .. coalesce(cardinality(locks), 0) LOOP
        IF locks[i] & 1 = 1 THEN
            held := pg_advisory_xact_lock(locks[i] >> 1) IS NOT NULL;
        ELSE
            held := pg_advisory_xact_lock_shared(locks[i] >> 1) IS NOT NULL;
        END IF;
    END LOOP;

    IF check_names IS NOT NULL THEN
        FOR i IN 1 .. cardinality(check_names) LOOP
            IF check_wants[i] = -3 THEN
                SELECT e.id INTO found_version FROM {schema}.entries e WHERE e.list = check_names[i] LIMIT 1;
            ELSE
                SELECT k.version INTO found_version FROM {schema}.kv k WHERE k.key = check_names[i];
            END IF;
            IF (CASE check_wants[i]
                WHEN -2 THEN found_version IS NULL
                WHEN -1 THEN found_version IS NOT NULL
                WHEN -3 THEN found_version IS NOT NULL
                ELSE found_version IS DISTINCT FROM check_wants[i]
            END) THEN
                outcome := -i;
                RETURN;
            END IF;
        END LOOP;
    END IF;
    IF coalesce(set_keys, delete_keys, range_starts, append_lists, remove_lists) IS NULL THEN
        outcome := 0;
        RETURN;
    END IF;

    -- The transaction has its number before the version is drawn: whoever sees the version can tell when this has ended.
    outcome := txid_current();
    -- Drawn while the locks are held, so that the versions of a key grow.
    outcome := nextval('{schema}.versions');
    IF set_keys IS NOT NULL THEN
        FOR i IN 1 .. cardinality(set_keys) LOOP
            UPDATE {schema}.kv k SET value = set_values[i], version = outcome WHERE k.key = set_keys[i];
            IF NOT FOUND THEN
                INSERT INTO {schema}.kv (key, value, version) VALUES (set_keys[i], set_values[i], outcome);
            END IF;
        END LOOP;
    END IF;
    IF delete_keys IS NOT NULL THEN
        DELETE FROM {schema}.kv k WHERE k.key = ANY (delete_keys);
    END IF;
    IF range_starts IS NOT NULL THEN
        DELETE FROM {schema}.kv k USING unnest(range_starts, range_ends) AS r (first, last)
            WHERE k.key >= r.first AND k.key < r.last;
        DELETE FROM {schema}.entries e USING unnest(range_starts, range_ends) AS r (first, last)
            WHERE e.list >= r.first AND e.list < r.last;
    END IF;
    IF append_lists IS NOT NULL THEN
        FOR i IN 1 .. cardinality(append_lists) LOOP
            INSERT INTO {schema}.entries (list, id, value)
                VALUES (append_lists[i], outcome * 65536 + i, append_values[i]);
        END LOOP;
    END IF;
    IF remove_lists IS NOT NULL THEN
        DELETE FROM {schema}.entries e USING unnest(remove_lists, remove_ids) AS r (list, id)
            WHERE e.list = r.list AND e.id = r.id;
    END IF;
    heard := EXISTS (SELECT FROM {schema}.listeners l WHERE l.id <> process);
END
$apply$;

CREATE TABLE {schema}.layout (version integer NOT NULL);
INSERT INTO {schema}.layout VALUES (1);
";

const RIGHTS: &str = r"
-- The role that opens the store, if it is not the owner of all this, needs:
--   GRANT USAGE ON SCHEMA {schema} TO role;
--   GRANT SELECT ON {schema}.layout TO role;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.kv, {schema}.entries, {schema}.listeners TO role;
--   GRANT USAGE, SELECT ON SEQUENCE {schema}.versions TO role;
--   GRANT EXECUTE ON FUNCTION {schema}.apply TO role;
";

/// Makes the schema if it is not there, and refuses one that is not of this release.
pub(crate) async fn prepare(connector: &Connector) -> Result<(), StoreError> {
    let link = connector.connect().await?;
    if look(connector, &link).await? {
        return Ok(());
    }
    // The first to come makes it; the others wait for the lock and find it made.
    make(connector, &link).await?;
    if look(connector, &link).await? {
        return Ok(());
    }
    Err(StoreError::corrupt(format!("schema {} was made and is not there", connector.settings().schema)))
}

/// Whether the schema is there, in the layout that we know.
async fn look(connector: &Connector, link: &Link) -> Result<bool, StoreError> {
    let schema = &connector.settings().schema;
    let query = format!("SELECT version FROM {schema}.layout");
    let rows = match link.client().query_typed(&query, &[]).await {
        Ok(rows) => rows,
        Err(error) if error.code().is_some_and(is_missing) => return Ok(false),
        Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let words = format!(
                "role {:?} may not use schema {schema}: grant it the rights that stand at the end of the DDL of the store",
                connector.settings().user
            );
            return Err(StoreError::invalid(Reason::caused(words, error)));
        }
        Err(error) => return Err(store_error("look for the schema of the store", error)),
    };
    match rows.first().map(|row| row.get::<_, i32>(0)) {
        Some(LAYOUT) => Ok(true),
        Some(other) => Err(StoreError::invalid(format!(
            "schema {schema} has layout {other}, and this release knows {LAYOUT}: use a release that fits, or another schema"
        ))),
        None => Err(StoreError::corrupt(format!("table {schema}.layout is empty: restore it from a backup"))),
    }
}

async fn make(connector: &Connector, link: &Link) -> Result<(), StoreError> {
    let settings = connector.settings();
    let schema = &settings.schema;
    let query = "SELECT to_regnamespace($1) IS NOT NULL";
    let parameters: &[crate::connection::Parameter<'_>] = &[(schema, Type::TEXT)];
    let rows = connector.query("look for the schema of the store", link, query, parameters).await?;
    let exists = rows.first().is_some_and(|row| row.get(0));
    // One message is one transaction. Whoever comes second finds the tables and does nothing; a schema that is there needs no right to make
    // schemas.
    let statements = format!(
        "DO $make$ BEGIN
            PERFORM pg_advisory_xact_lock({lock});
            IF to_regclass('{schema}.layout') IS NULL THEN
                {schema_statement}
                {tables}
            END IF;
        END $make$",
        lock = lock_id(schema, b's', b""),
        schema_statement =
            if exists { String::new() } else { format!("CREATE SCHEMA IF NOT EXISTS {schema};") },
        tables = TABLES.replace("{schema}", schema),
    );
    let making = link.client().batch_execute(&statements);
    let time = settings.connect_timeout.max(settings.request_timeout);
    match connector.env().timeout(time, making).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let words = format!(
                "role {:?} may not make the tables of the store in schema {schema} of database {:?}: have their owner run the DDL of \
                 the store (tenure_postgres::ddl), or grant CREATE",
                settings.user, settings.database
            );
            Err(StoreError::invalid(Reason::caused(words, error)))
        }
        Ok(Err(error)) => Err(store_error("make the schema of the store", error)),
        Err(elapsed) => {
            link.abandon();
            let words = format!("make the schema of the store: {elapsed}");
            Err(StoreError::unavailable(Reason::caused(words, elapsed)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ddl_names_the_schema_and_nothing_else() {
        let ddl = ddl("office").unwrap();
        assert!(ddl.starts_with("CREATE SCHEMA IF NOT EXISTS office;"));
        assert!(ddl.contains("office.kv") && ddl.contains("GRANT USAGE ON SCHEMA office"));
        assert!(!ddl.contains("{schema}") && !ddl.contains("tenure."));
        assert!(super::ddl("x; DROP").is_err());
    }
}
