//! Real servers for Tenure's tests: PostgreSQL, PgBouncer, MariaDB, Galera, etcd.
//!
//! Tests that need some server take a shared one: [`postgres()`], [`pgbouncer()`], [`mariadb()`], [`galera()`] and [`etcd()`] give the URL that an
//! environment variable names (`cargo xtask services start` prints them), else that of a server that is started for this process, once.
//! Tests that kill, restart or misconfigure a server start one of their own: [`Postgres`], [`MariaDb`], [`Galera`], [`Etcd`], [`PgBouncer`].
//! [`Proxy`] stands between a client and a server, and cuts connections.
//!
//! # What it promises
//! - Servers listen on 127.0.0.1 only, on ports that no other run of the tests has.
//! - Their data is in a folder of its own under the system's temporary one.
//! - Nothing is left: when the value is dropped, or the process that made it ends in whatever way (SIGKILL too), the server is killed and
//!   its folder removed.
//! - They run with the settings that a careful user would have in production: what is acknowledged was flushed to disk.
//! - They run as root too. Servers that refuse root get the user that their package has made.
//!
//! All of it blocks: starting a server takes about a second. Linux only.
//!
//! | to find | look in |
//! | --- | --- |
//! | how a server is held, so that nothing is left | `keeper` |
//! | how ports are chosen | `port` |
//! | where programs are found, and who runs them | `programs` |
//! | the clock that can be stepped | `clock` |
//! | certificates | `tls` |

mod answers;
mod clock;
mod etcd;
mod galera;
mod http;
mod keeper;
mod mariadb;
mod options;
mod pgbouncer;
mod port;
mod postgres;
mod programs;
mod proxy;
mod shared;
mod tls;
mod wait;

pub use self::{
    answers::answers,
    etcd::Etcd,
    galera::Galera,
    keeper::folders,
    mariadb::MariaDb,
    options::Options,
    pgbouncer::PgBouncer,
    postgres::Postgres,
    programs::{library, program},
    proxy::{Proxy, ProxyFaults},
    shared::{etcd, galera, mariadb, pgbouncer, postgres},
};
