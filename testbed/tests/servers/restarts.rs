//! Servers that are killed and come back with their data, and those that follow one another without a gap.

use std::net::{Ipv4Addr, TcpStream};

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use tenure_testbed::{Etcd, Galera, MariaDb, Options, PgBouncer, Postgres, answers};

use crate::{
    clients::{etcdctl, eventually, gone, lives, mariadb, psql},
    trial,
};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("postgres_comes_back_with_its_data", postgres),
        trial("mariadb_comes_back_with_its_data", mariadb_server),
        trial("etcd_goes_on_without_its_leader", etcd),
        trial("galera_goes_on_without_a_node", galera),
        trial("pgbouncer_pools_by_transaction", pgbouncer),
    ]
}

fn postgres() -> Result<()> {
    let server = Postgres::start()?;
    let (url, port) = (server.url(), server.port());
    ensure!(psql(&url, "show fsync")? == "on" && psql(&url, "show max_connections")? == "200");
    psql(&url, "create table t (a int)")?;
    for round in 1..=3 {
        psql(&url, "insert into t values (1)")?;
        let process = server.process().context("it runs")?;
        server.kill()?;
        ensure!(!lives(process) && server.process().is_none());
        ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "nobody listens");
        server.restart()?;
        ensure!(psql(&server.url(), "select count(*) from t")? == round.to_string() && server.port() == port);
    }
    ensure!(server.log().contains("database system was interrupted"), "it was no orderly stop");
    let (process, folder) = (server.process().context("it runs")?, server.dir().to_owned());
    drop(server);
    ensure!(!lives(process) && !folder.exists());
    Ok(())
}

fn mariadb_server() -> Result<()> {
    let server = MariaDb::start()?;
    let port = server.port();
    ensure!(
        mariadb(port, "select @@innodb_flush_log_at_trx_commit, @@log_bin, @@max_connections")?
            == "1\t0\t500"
    );
    mariadb(port, "create table test.t (a int)")?;
    for round in 1..=3 {
        mariadb(port, "insert into test.t values (1)")?;
        let process = server.process().context("it runs")?;
        server.kill()?;
        ensure!(!lives(process) && server.process().is_none());
        ensure!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err(), "nobody listens");
        server.restart()?;
        ensure!(mariadb(port, "select count(*) from test.t")? == round.to_string() && server.port() == port);
    }
    let (process, folder) = (server.process().context("it runs")?, server.dir().to_owned());
    drop(server);
    ensure!(!lives(process) && !folder.exists());
    Ok(())
}

fn etcd() -> Result<()> {
    let cluster = Etcd::start(3, &Options::default())?;
    let endpoints = cluster.endpoints();
    ensure!(answers(&cluster.url()));
    ensure!(cluster.url() == format!("etcd://{}", endpoints.join(",")) && endpoints.len() == 3);
    etcdctl(&endpoints[0], &["put", "a", "1"])?;
    let leader = cluster.leader();
    let process = cluster.process(leader).context("it runs")?;
    cluster.kill(leader)?;
    ensure!(!lives(process) && cluster.process(leader).is_none());
    let other = (leader + 1) % 3;
    ensure!(!answers(&cluster.url()), "one of three does not answer");
    ensure!(eventually(|| etcdctl(&endpoints[other], &["put", "a", "2"]).is_ok()), "two of three go on");
    ensure!(cluster.leader() != leader);
    cluster.restart(leader)?;
    // Read from the node itself, without asking the others: it has caught up.
    let read = || etcdctl(&endpoints[leader], &["get", "--consistency=s", "--print-value-only", "a"]);
    ensure!(eventually(|| read().is_ok_and(|value| value == "2")));
    let processes: Vec<u32> = (0..3).filter_map(|index| cluster.process(index)).collect();
    ensure!(processes.len() == 3);
    let folders: Vec<_> = cluster.dirs().into_iter().map(ToOwned::to_owned).collect();
    drop(cluster);
    let folders: Vec<_> = folders.iter().map(AsRef::as_ref).collect();
    ensure!(gone(&processes, &folders));
    Ok(())
}

fn galera() -> Result<()> {
    let cluster = Galera::start()?;
    let ports = cluster.ports();
    ensure!(cluster.urls().iter().all(|url| answers(url)));
    mariadb(ports[1], "create table test.t (a int primary key)")?;
    mariadb(ports[2], "insert into test.t values (1)")?;
    let read = "set wsrep_sync_wait = 1; select count(*) from test.t";
    for &port in &ports {
        ensure!(mariadb(port, read)? == "1");
        ensure!(mariadb(port, "show status like 'wsrep_cluster_size'")?.ends_with('3'));
    }
    cluster.kill(2)?;
    ensure!(eventually(|| mariadb(ports[0], "insert into test.t values (2)").is_ok()), "two of three go on");
    cluster.restart(2)?;
    ensure!(mariadb(ports[2], read)? == "2");
    let processes: Vec<u32> = (0..3).filter_map(|index| cluster.process(index)).collect();
    let folders: Vec<_> = cluster.dirs().into_iter().map(ToOwned::to_owned).collect();
    drop(cluster);
    let folders: Vec<_> = folders.iter().map(AsRef::as_ref).collect();
    ensure!(processes.len() == 3 && gone(&processes, &folders));
    Ok(())
}

fn pgbouncer() -> Result<()> {
    let server = Postgres::start()?;
    let pooler = PgBouncer::start(&server.url())?;
    ensure!(answers(&server.url()) && answers(&pooler.url()));
    ensure!(psql(&pooler.url(), "select 1 + 1")? == "2");
    ensure!(psql(&pooler.url(), "show port")? == server.port().to_string(), "it is in front of that server");
    // In another mode it would clean up behind a client. Here the next client gets the same connection as it is.
    psql(&pooler.url(), "set application_name = 'left'; set work_mem = '123kB'")?;
    ensure!(psql(&pooler.url(), "show work_mem")? == "123kB");
    let (process, folder) = (pooler.process().context("it runs")?, pooler.dir().to_owned());
    drop(pooler);
    ensure!(!lives(process) && !folder.exists());
    Ok(())
}
