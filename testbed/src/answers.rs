//! Whether somebody answers at the URL of a server, in the server's own protocol, without logging in.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

use crate::{http::get, mariadb::greets};

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(2);

/// What a PostgreSQL client sends first, to ask for TLS; and what the server answers, `S` for yes, `N` for no.
const ASK_FOR_TLS: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const TLS_ANSWERS: [u8; 2] = [b'S', b'N'];

/// Whether each server that a URL of [`postgres`](fn@crate::postgres), [`pgbouncer`](fn@crate::pgbouncer), [`mariadb`](fn@crate::mariadb),
/// [`galera`](fn@crate::galera) or [`etcd`](fn@crate::etcd) names answers. Other URLs do not.
#[must_use]
pub fn answers(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    let hosts = rest.split('/').next().unwrap_or_default();
    let hosts = hosts.rsplit_once('@').map_or(hosts, |(_, hosts)| hosts);
    let mut ports = hosts.split(',').map(|host| host.rsplit_once(':')?.1.parse().ok());
    ports.all(|port: Option<u16>| {
        port.is_some_and(|port| match scheme {
            "postgres" => answers_about_tls(port),
            "mysql" => greets(port),
            "etcd" => get(port, "/health").is_some_and(|page| page.contains("\"true\"")),
            _ => false,
        })
    })
}

fn answers_about_tls(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut answer = [0];
    let asked = TcpStream::connect_timeout(&address, LIMIT).and_then(|mut stream| {
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(&ASK_FOR_TLS)?;
        stream.read_exact(&mut answer)
    });
    asked.is_ok() && TLS_ANSWERS.contains(&answer[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_answers_where_nobody_is() {
        let port = crate::port::Port::reserve().unwrap();
        for scheme in ["postgres", "mysql", "etcd", "gopher"] {
            assert!(!answers(&format!("{scheme}://user@127.0.0.1:{}/x", port.number())), "{scheme}");
        }
        assert!(!answers("postgres://127.0.0.1/x") && !answers("postgres") && !answers(""));
    }
}
