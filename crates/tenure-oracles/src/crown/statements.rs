//! [`Statements`]: what is said to the server. The module above says why.

use super::tables::Tables;

/// The statements of a candidate. `$1` is the lock, `$2` the holder, `$3` the duration in seconds.
///
/// Those that claim and refresh answer in one row: whether they won, the term if terms are counted, and who held the
/// lease when they began, for how many seconds more.
#[derive(Clone, Debug)]
pub(super) struct Statements {
    pub(super) claim: String,
    pub(super) refresh: String,
    pub(super) abdicate: String,
}

impl Statements {
    /// For these tables. `counts` says whether terms are counted.
    pub(super) fn new(tables: &Tables, counts: bool) -> Self {
        let Tables { leases, terms } = tables;
        let (count, term) = if counts {
            let count = format!(
                ", counted AS (
                    INSERT INTO {terms} AS counter (lock_name, term) SELECT $1, 1 FROM won
                    ON CONFLICT (lock_name) DO UPDATE SET term = counter.term + 1
                    RETURNING term
                )"
            );
            (count, format!("(SELECT term FROM {terms} WHERE lock_name = $1)"))
        } else {
            (String::new(), "NULL::int8".to_owned())
        };
        let counted =
            if counts { format!("coalesce((SELECT term FROM counted), {term})") } else { term.clone() };
        let answer = |won: &str, term: &str| {
            format!(
                "SELECT {won}, {term}, lease.holder,
                    extract(epoch FROM lease.expires_at - clock_timestamp())::float8
                FROM (SELECT 1) AS one LEFT JOIN {leases} AS lease ON lease.lock_name = $1"
            )
        };
        // What is ours already is kept: its end is never brought forward.
        let kept = format!(
            "WITH kept AS (
                UPDATE {leases} SET expires_at = greatest(expires_at, clock_timestamp() + make_interval(secs => $3))
                WHERE lock_name = $1 AND holder = $2 AND expires_at >= clock_timestamp()
                RETURNING holder
            )"
        );
        // Crown's own statement, for what is not ours.
        let claim = format!(
            "{kept}, won AS (
                INSERT INTO {leases} AS lease (lock_name, holder, expires_at)
                SELECT $1, $2, clock_timestamp() + make_interval(secs => $3) WHERE NOT EXISTS (SELECT FROM kept)
                ON CONFLICT (lock_name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
                WHERE lease.expires_at < clock_timestamp()
                RETURNING lease.holder
            ){count} {}",
            answer("EXISTS (SELECT FROM kept) OR EXISTS (SELECT FROM won)", &counted)
        );
        let refresh = format!("{kept} {}", answer("EXISTS (SELECT FROM kept)", &term));
        let abdicate = format!("DELETE FROM {leases} WHERE lock_name = $1 AND holder = $2");
        Self { claim, refresh, abdicate }
    }
}
