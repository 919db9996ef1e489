//! Bare clients, one for each database: what it can do when nothing of ours is in between.

mod etcd;
mod mysql;
mod postgres;
mod sqlite;

pub use etcd::BareEtcd;
pub use mysql::BareMysql;
pub use postgres::PgBench;
pub use sqlite::BareSqlite;
