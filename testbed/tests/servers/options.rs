//! Servers with options: a clock that steps, TLS, passwords, settings.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tenure_testbed::{Etcd, MariaDb, Options, Postgres};

use crate::{
    clients::{etcdctl, eventually, mariadb, mariadb_as, psql},
    trial,
};

/// An hour, in seconds: how far clocks are stepped.
const HOUR: i64 = 3600;

/// How wrong a clock may look for the time that a look takes.
const SLACK: i64 = 60;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("postgres_has_a_clock_that_steps", postgres_clock),
        trial("mariadb_has_a_clock_that_steps", mariadb_clock),
        trial("postgres_has_tls_a_password_and_settings", postgres_options),
        trial("mariadb_has_tls_a_password_and_settings", mariadb_options),
        trial("etcd_has_tls_a_password_and_settings", etcd_options),
        trial("a_setting_that_is_refused_is_an_error_with_the_log", bad_setting),
    ]
}

fn postgres_clock() -> Result<()> {
    let server = Postgres::start_with(&Options { faketime: true, ..Options::default() })?;
    let clock = || Ok(psql(&server.url(), "select extract(epoch from now())::bigint")?.parse()?);
    steps(clock, |seconds| server.step_clock(seconds))
}

fn mariadb_clock() -> Result<()> {
    let server = MariaDb::start_with(&Options { faketime: true, ..Options::default() })?;
    let port = server.port();
    let clock = || Ok(mariadb(port, "select unix_timestamp(now())")?.parse()?);
    steps(clock, |seconds| server.step_clock(seconds))?;
    let process = server.process().context("it runs")?;
    drop(server);
    let memory = std::fs::read_dir("/dev/shm")?.flatten().map(|file| file.file_name());
    let memory: Vec<_> =
        memory.filter(|name| name.to_string_lossy().ends_with(&format!("_{process}"))).collect();
    ensure!(memory.is_empty(), "left: {memory:?}");
    let plain = MariaDb::start()?;
    ensure!(plain.step_clock(1).is_err(), "its clock is the machine's");
    Ok(())
}

/// A clock goes where it is stepped, forth and back, while the server runs.
fn steps(clock: impl Fn() -> Result<i64>, step: impl Fn(i64) -> Result<()>) -> Result<()> {
    let right = clock()?;
    for ahead in [HOUR, -HOUR, 0] {
        step(ahead)?;
        let seen = clock()? - right;
        ensure!((ahead..ahead + SLACK).contains(&seen), "stepped to {ahead}, seen at {seen}");
    }
    Ok(())
}

fn secure(name: &str, value: &str) -> Options {
    Options { tls: true, password: Some("secret1".to_owned()), ..Options::default() }.setting(name, value)
}

fn postgres_options() -> Result<()> {
    let server = Postgres::start_with(&secure("application_name", "it's"))?;
    let ca = server.ca();
    let verified = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), ca.display());
    ensure!(server.url().contains("tenure:secret1@"));
    let used = "select ssl, current_user from pg_stat_ssl where pid = pg_backend_pid()";
    ensure!(psql(&verified, used)? == "t|tenure");
    ensure!(
        psql(&verified, "select boot_val, reset_val from pg_settings where name = 'data_directory'").is_ok()
    );
    ensure!(
        psql(&verified, "select setting from pg_file_settings where name = 'application_name'")? == "it's"
    );
    ensure!(psql(&verified.replace("secret1", "wrong"), used).is_err());
    // Trusting somebody else, here an authority that does not exist, the client refuses the server.
    let other = Postgres::start_with(&Options { tls: true, ..Options::default() })?;
    ensure!(psql(&verified.replace(&*ca.to_string_lossy(), &other.ca().to_string_lossy()), used).is_err());
    Ok(())
}

fn mariadb_options() -> Result<()> {
    let server = MariaDb::start_with(&secure("innodb-lock-wait-timeout", "7"))?;
    let ca = format!("--ssl-ca={}", server.ca().display());
    let login = |password| [ca.as_str(), "--ssl-verify-server-cert", "--user=tenure", password];
    let cipher = |password| {
        mariadb_as(
            server.port(),
            &login(password),
            "show status like 'Ssl_cipher'; select @@innodb_lock_wait_timeout",
        )
    };
    let answer = cipher("--password=secret1")?;
    ensure!(answer.contains("TLS") && answer.ends_with('7'), "{answer}");
    ensure!(cipher("--password=wrong").is_err());
    ensure!(server.url().starts_with("mysql://tenure:secret1@127.0.0.1:"));
    Ok(())
}

fn etcd_options() -> Result<()> {
    let options = Options { client_certificates: true, ..secure("max-txn-ops", "7") };
    let cluster = Etcd::start(1, &options)?;
    let (certificate, key) = cluster.client_certificate();
    let endpoint = format!("https://{}", cluster.endpoints()[0]);
    let ca = format!("--cacert={}", cluster.ca().display());
    let (certificate, key) =
        (format!("--cert={}", certificate.display()), format!("--key={}", key.display()));
    let put = ["put", "a", "1"];
    let ask = |options: &[&str]| etcdctl(&endpoint, &[options, &put].concat());
    ensure!(ask(&[&ca, &certificate, &key, "--user=root:secret1"])? == "OK");
    ensure!(ask(&[&ca, &certificate, &key, "--user=root:wrong"]).is_err());
    ensure!(ask(&[&ca, &certificate, &key]).is_err(), "nobody passes without a password");
    ensure!(ask(&[&ca, "--user=root:secret1"]).is_err(), "nobody passes without a certificate");
    ensure!(cluster.url().starts_with("etcd://root:secret1@127.0.0.1:"));
    // It is found and restarted as one without a password is.
    ensure!(cluster.leader() == 0);
    cluster.kill(0)?;
    cluster.restart(0)?;
    ensure!(eventually(|| ask(&[&ca, &certificate, &key, "--user=root:secret1"]).is_ok()));
    Ok(())
}

fn bad_setting() -> Result<()> {
    let error = Postgres::start_with(&Options::default().setting("max_connections", "many")).err();
    let error = format!("{:#}", error.context("it can't start")?);
    ensure!(error.contains("max_connections") && error.contains("many"), "{error}");
    Ok(())
}
