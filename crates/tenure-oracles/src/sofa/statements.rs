//! What is said to the server: SOFA's own conditions.

use crate::mysql::{Database, Failure};

/// There is no such table.
pub(super) const NO_TABLE: u16 = 1146;

/// Rights are missing.
const TABLE_DENIED: u16 = 1142;

/// The row, its age, the part of a second at which it was renewed, and whether it can be taken over.
pub(super) const READ: &str = "SELECT owner, term, term_duration, duration, \
    TIMESTAMPDIFF(MICROSECOND, gmt_modified, NOW(6)), MICROSECOND(gmt_modified), \
    TIMESTAMPDIFF(SECOND, gmt_modified, NOW()) > duration / 1000 \
    FROM distribute_lock WHERE data_center = ? AND lock_name = ?";

/// Whoever comes second changes nothing.
pub(super) const INSERT: &str = "INSERT INTO distribute_lock \
    (data_center, lock_name, owner, duration, gmt_create, gmt_modified, term, term_duration) \
    VALUES (?, ?, ?, ?, NOW(3), NOW(3), 1, 0) ON DUPLICATE KEY UPDATE lock_name = lock_name";

pub(super) const RENEW: &str = "UPDATE distribute_lock \
    SET owner = ?, gmt_modified = NOW(3), term_duration = term_duration + 1 \
    WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ? AND term_duration = ? \
    AND TIMESTAMPDIFF(SECOND, gmt_modified, NOW()) < ? / 1000";

pub(super) const TAKE_OVER: &str = "UPDATE distribute_lock \
    SET owner = ?, gmt_modified = NOW(3), term = term + 1, term_duration = 0 \
    WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ? AND term_duration = ? \
    AND TIMESTAMPDIFF(SECOND, gmt_modified, NOW()) > ? / 1000";

/// Ours: SOFA has nothing like it.
pub(super) const GIVE_UP: &str = "UPDATE distribute_lock \
    SET gmt_modified = NOW(3) - INTERVAL ? SECOND, term_duration = term_duration + 1 \
    WHERE data_center = ? AND lock_name = ? AND owner = ? AND term = ? AND term_duration = ?";

/// SOFA's table, with what servers of today take: keys of at most 3072 bytes (a name of 512 characters, as SOFA has
/// it today, not of 1024), and defaults as precise as their columns. Names are compared byte by byte.
const DDL: &str = "CREATE TABLE IF NOT EXISTS distribute_lock (\
    id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, \
    data_center varchar(128) NOT NULL, \
    lock_name varchar(512) NOT NULL, \
    owner varchar(512) NOT NULL, \
    duration bigint NOT NULL, \
    term bigint unsigned NOT NULL DEFAULT 0, \
    term_duration bigint unsigned NOT NULL DEFAULT 0, \
    gmt_create timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    gmt_modified timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3), \
    UNIQUE KEY uk_data_center_lock (data_center, lock_name), \
    KEY idx_lock_owner (owner)\
    ) ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin";

/// Finds the table, or makes it.
pub(super) async fn find_or_make(database: &mut Database) -> Result<(), Failure> {
    if is_there(database).await? {
        return Ok(());
    }
    let Err(failure) = database.query("make the table of SOFARegistry", DDL, ()).await else { return Ok(()) };
    // Perhaps somebody else has made it meanwhile.
    if failure.code != Some(TABLE_DENIED) {
        return Err(failure);
    }
    if is_there(database).await? {
        return Ok(());
    }
    let user = database.user().to_owned();
    Err(failure.advise(format!(
        "there is no table distribute_lock, and user {user:?} may not make it. Grant it CREATE, or run as \
         somebody who may: {DDL}; and grant {user:?} SELECT, INSERT and UPDATE on it"
    )))
}

async fn is_there(database: &mut Database) -> Result<bool, Failure> {
    let statement = "SELECT 1 FROM information_schema.tables \
        WHERE table_schema = DATABASE() AND table_name = 'distribute_lock'";
    let rows = database.query("look for the table of SOFARegistry", statement, ()).await?;
    Ok(!rows.is_empty())
}
