//! The statements. Their text depends on the prefix of the tables alone: whatever users choose is bound as an argument.

use crate::{
    session::DESKS,
    slots::{SESSIONS, SLOTS},
};

const TABLES: &str = include_str!("sql/tables.sql");
const COMMIT: &str = include_str!("sql/commit.sql");
const READ: &str = include_str!("sql/read.sql");

/// The prefix in the files above.
const PREFIX: &str = "tenure_";

/// The layout that this code reads and writes. A change of layout takes the next number and a migration from the one before.
/// (The procedures have numbers of their own: a new one is put beside the old one, so that releases can run side by side.)
pub(crate) const SCHEMA_VERSION: &str = "1";

/// For how many keys a read by keys is prepared. A read of another number repeats its last key.
pub(crate) const KEY_COUNTS: [usize; 4] = [1, 4, 16, 64];

/// Rows that one statement makes: few enough that a statement is no burden, and a power of two.
const ROWS: u64 = 4096;

/// All statements for one prefix.
#[derive(Debug)]
pub(crate) struct Statements {
    /// Makes a commit.
    pub(crate) commit: String,
    /// Gives a session a number.
    pub(crate) number: String,
    /// Answers questions.
    pub(crate) read: String,
    /// Finds as many keys as [`KEY_COUNTS`] says.
    pub(crate) keys: [String; 4],
    /// Finds the desks whose turns are not the ones in the argument.
    pub(crate) desks: String,
    /// The version of the tables.
    pub(crate) version: String,
    /// Marks the tables as complete.
    pub(crate) mark: String,
    /// Makes the tables and what is in them, but for the mark.
    pub(crate) tables: Vec<String>,
    /// Makes the procedures.
    pub(crate) procedures: [String; 2],
}

impl Statements {
    pub(crate) fn new(prefix: &str) -> Self {
        let named = |text: &str| text.trim_end().replace(PREFIX, prefix);
        let places = |count| vec!["?"; count].join(", ");
        Self {
            commit: named("CALL tenure_commit_1(?, ?, ?, ?, ?, ?, ?, ?)"),
            number: named(&format!(
                "UPDATE tenure_slots SET floor = LAST_INSERT_ID(floor + 1) WHERE slot = {SESSIONS}"
            )),
            read: named("CALL tenure_read_1(?, ?)"),
            keys: KEY_COUNTS.map(|count| {
                named(&format!(
                    "SELECT name, version, value FROM tenure_kv WHERE name IN ({})",
                    places(count)
                ))
            }),
            desks: named(
                "SELECT desk, turn, ring FROM tenure_desks \
                 WHERE turn <> CAST(CONV(HEX(SUBSTRING(?, desk * 8 + 1, 8)), 16, 10) AS UNSIGNED)",
            ),
            version: named("SELECT fact FROM tenure_meta WHERE name = 'schema'"),
            mark: named(&format!(
                "INSERT IGNORE INTO tenure_meta (name, fact) VALUES ('schema', '{SCHEMA_VERSION}')"
            )),
            tables: TABLES
                .split_inclusive(';')
                .map(|table| named(table.trim()).trim_end_matches(';').to_owned())
                .filter(|table| !table.is_empty())
                .chain(fill("tenure_slots (slot, floor)", ", 0", SLOTS).map(|text| named(&text)))
                .chain(
                    fill("tenure_desks (desk, gate, turn, ring)", ", 0, 0, ''", DESKS.into())
                        .map(|text| named(&text)),
                )
                .collect(),
            procedures: [named(COMMIT), named(READ)],
        }
    }

    /// Everything as a script for the `mysql` program.
    pub(crate) fn script(&self) -> String {
        let mut script = String::new();
        for statement in &self.tables {
            script.push_str(&format!("{statement};\n\n"));
        }
        script.push_str("DELIMITER //\n\n");
        for procedure in &self.procedures {
            script.push_str(&format!("{procedure} //\n\n"));
        }
        script.push_str(&format!("DELIMITER ;\n\n{};\n", self.mark));
        script
    }
}

/// Statements that give a table the rows 0 up to `count`, if they are not there.
fn fill(table: &str, rest: &str, count: u64) -> impl Iterator<Item = String> {
    let digits: Vec<String> = (0..16).map(|digit| format!("SELECT {digit} AS n")).collect();
    let digits = format!("({})", digits.join(" UNION ALL "));
    (0..count).step_by(usize::try_from(ROWS).expect("a small number")).map(move |first| {
        format!(
            "INSERT IGNORE INTO {table} SELECT number{rest} FROM (SELECT {first} + a.n + 16 * b.n + 256 * c.n AS number \
             FROM {digits} AS a, {digits} AS b, {digits} AS c) AS numbers WHERE number < {count} ORDER BY number"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_the_prefix() {
        let statements = Statements::new("other_");
        let all = format!("{statements:?}{}", statements.script());
        assert!(!all.contains("tenure_"));
        assert_eq!(statements.tables.len(), 5 + 5 + 1);
        assert!(statements.tables.iter().chain(&statements.procedures).all(|text| !text.ends_with(';')));
    }
}
