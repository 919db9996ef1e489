//! [`Port`]: a TCP port on 127.0.0.1 that nobody else uses, here or in another run of the tests.
//!
//! A port is free if it can be bound. Between that look and the server's own bind, and while a server is down to be restarted, another run
//! must not take it: each run holds an abstract Unix socket named after the port. The kernel gives a name to one holder at a time, for all
//! users, in the same network namespace as the port itself, and takes it back when the holder is gone, however it went. No file is needed.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    net::{Ipv4Addr, TcpListener},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    },
};

use anyhow::{Result, bail};

/// The ports to choose from: above those of services, below those that the system gives to outgoing connections.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// Ports looked at before we give up. Even if nine of ten were taken, all of them would be only once in 10^9 times.
const TRIES: usize = 200;

/// A port that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _claim: UnixListener,
}

impl Port {
    /// A free port, chosen at random.
    pub(crate) fn reserve() -> Result<Self> {
        for _ in 0..TRIES {
            let number = FIRST + u16::try_from(random() % u64::from(COUNT)).expect("COUNT is a u16");
            let Some(port) = Self::claim(number) else { continue };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(port);
            }
        }
        bail!(
            "none of {TRIES} ports tried between {FIRST} and {} is free: end what occupies them",
            FIRST + COUNT
        );
    }

    /// Its number.
    pub(crate) fn number(&self) -> u16 {
        self.number
    }

    fn claim(number: u16) -> Option<Self> {
        let name = SocketAddr::from_abstract_name(format!("tenure-testbed-port-{number}")).ok()?;
        Some(Self { number, _claim: UnixListener::bind_addr(&name).ok()? })
    }
}

/// A number nobody can foresee: what keys the standard library's hash tables.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_is_given_once_while_it_is_held() {
        let held: Vec<Port> = (0..100).map(|_| Port::reserve().unwrap()).collect();
        let numbers: BTreeSet<u16> = held.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), held.len());
        assert!(numbers.iter().all(|number| (FIRST..FIRST + COUNT).contains(number)));
        let number = held[0].number();
        assert!(Port::claim(number).is_none(), "it is held");
        drop(held);
        assert!(Port::claim(number).is_some(), "it was given back");
    }
}
