//! `cargo xtask bench store`: what a store costs, beside the limit of what it stands on, in the same run.
//!
//! Without arguments it measures SQLite; `--store URL` measures the store of that URL on a server that runs already, beside the server's own
//! tool or a bare client. It writes to that server, and to pgbench's tables on PostgreSQL.
//!
//! Everything that is compared is measured in turns, round by round, so that a neighbour on the machine disturbs all alike; a ratio is
//! the median of the rounds' ratios.

#![allow(clippy::unwrap_used, reason = "a measurement that fails has nothing to tell")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]
#![allow(clippy::cast_precision_loss, reason = "figures are rounded anyway")]

mod etcd;
mod mysql;
mod postgres;
mod server;
mod sqlite;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        [role, rest @ ..] if *role == sqlite::processes::WORKER => sqlite::processes::worker(rest),
        [] => sqlite::measure(),
        ["--store", url] if url.starts_with("postgres") => postgres::measure(url),
        ["--store", url] if url.starts_with("mysql") => mysql::measure(url),
        ["--store", url] if url.starts_with("etcd") => etcd::measure(url),
        _ => {
            println!("usage: cargo xtask bench store [--store postgres://…|mysql://…|etcd://…]");
            std::process::exit(2);
        }
    }
}
