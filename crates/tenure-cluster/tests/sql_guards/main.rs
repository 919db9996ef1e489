//! Guards in SQL, on real servers: users' transactions and a cluster's changes meet in one database.

#![allow(clippy::unwrap_used, reason = "a test tells what it found by panicking")]

mod cases;
mod galera;
mod mysql;
mod postgres;
mod server;

/// Emits a test for each case and server.
macro_rules! cases {
    ($server:ident: $($case:ident,)*) => {
        mod $server {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    crate::cases::$case(&crate::server::Server::$server().await).await;
                }
            )*
        }
    };
}

/// The cases that every server must pass, and more of them.
macro_rules! all_cases {
    ($server:ident: $($more:ident,)*) => {
        cases! {
            $server:
            the_current_term_passes,
            every_other_term_is_refused,
            a_vacant_office_is_refused,
            an_ended_session_is_refused,
            a_takeover_waits_for_a_commit,
            a_takeover_waits_for_a_rollback,
            the_end_of_a_session_waits,
            an_older_snapshot_does_not_help,
            an_older_snapshot_keeps_no_session,
            heartbeats_do_not_wait,
            a_guard_may_be_repeated,
            names_of_all_kinds_are_found,
            sessions_of_all_bytes_are_found,
            a_guard_outlasts_later_savepoints,
            a_busy_leader_can_be_deposed,
            the_session_of_a_busy_leader_can_be_ended,
            a_term_that_begins_meanwhile_needs_its_session,
            other_formats_are_refused,
            $($more,)*
        }
    };
}

mod on {
    all_cases! { postgres: guards_do_not_wait_for_each_other, }
    all_cases! { mariadb: guards_do_not_wait_for_each_other, }
    // There, guards of one election wait for each other: each of them writes.
    all_cases! { galera: }
}
