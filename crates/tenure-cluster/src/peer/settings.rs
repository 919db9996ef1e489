//! [`LinkSettings`]: where peers are listened for, how they prove who they are, and what is allowed them.

use std::{net::SocketAddr, ops::RangeInclusive, path::PathBuf, time::Duration};

use tenure_store::Password;

use super::LinkError;

/// The shortest secret, in bytes. Whoever sits between two nodes sees proofs that were made with it, and may try out short ones at leisure.
const SECRET_BYTES_MIN: usize = 16;

/// How large a message may be set to be. Links are for messages, not for files: one that takes seconds delays all behind it.
const MESSAGE_BYTES: RangeInclusive<usize> = 1..=64 * 1024 * 1024;

/// How many links may be set. Each may cost as much memory as [`LinkSettings::links_max`] tells.
const LINKS: RangeInclusive<usize> = 1..=65_536;

/// How many messages an inbox may be set to hold.
const INBOX_MESSAGES: RangeInclusive<usize> = 1..=1_048_576;

/// From what a busy machine can keep to what nobody would wait for.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// How peer links are set up. All nodes of a cluster should have the same, but for `bind`.
///
/// One of `secret` and `tls` is needed, and both may be given; with neither, links are refused unless `insecure_on_loopback` is set and `bind`
/// is a loopback address.
///
/// - **A secret** proves to each side that the other knows it, and seals every message with a key of that link alone. Without TLS, whoever sits on the
///   network between two nodes can read messages and cut links, but can't forge, change, repeat or reorder messages.
/// - **TLS** encrypts links too. Each side must show a certificate of the same authority; anyone who has one is a peer, under whatever node name it
///   gives, just as anyone who knows the secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Where to listen. Port 0 lets the system choose; [`BoundLinks::address`](super::BoundLinks::address) tells which.
    pub bind: SocketAddr,
    /// What all nodes of the cluster know and nobody else. At least 16 bytes; best are 32 random ones in hexadecimal.
    pub secret: Option<Password>,
    /// Certificates, to encrypt links.
    pub tls: Option<LinkTls>,
    /// Whether to do without a secret and TLS, on a loopback address. Then any process of this machine is a peer. Default: `false`.
    pub insecure_on_loopback: bool,
    /// The largest body of a message, in bytes. Default: 1 MiB.
    pub message_bytes_max: usize,
    /// How long a message may take to one peer. Default: 3 s.
    pub deadline: Duration,
    /// How long a link may take to be opened. Default: 2 s.
    pub connect_timeout: Duration,
    /// After how long without a message a link is closed. Default: 60 s.
    pub idle: Duration,
    /// How many links may be open in each direction: as many as there are other members, for a broadcast to reach all. A link that waits for a slow
    /// peer costs up to five times `message_bytes_max`, others a few KiB. Default: 1024.
    pub links_max: usize,
    /// How many messages wait in a subscription's inbox. Their bodies may add up to eight times `message_bytes_max`. Default: 1024.
    pub inbox_messages: usize,
    /// For how long the id of a message is remembered, so that it is not delivered twice: at least twice `deadline`. Default: 60 s.
    pub duplicates_window: Duration,
}

/// The files that links are encrypted with, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTls {
    /// The certificates of the authorities that may have signed a peer's. Nobody else is trusted, the system's authorities neither.
    pub ca: PathBuf,
    /// Our own certificate, shown to peers whichever side opens the link.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The name that certificates of peers must be for. Default: the host in the peer's address.
    pub server_name: Option<String>,
}

impl LinkSettings {
    /// The defaults for an address. Neither a secret nor TLS is among them: give one of them before use.
    #[must_use]
    pub fn new(bind: SocketAddr) -> Self {
        Self {
            bind,
            secret: None,
            tls: None,
            insecure_on_loopback: false,
            message_bytes_max: 1024 * 1024,
            deadline: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            idle: Duration::from_secs(60),
            links_max: 1024,
            inbox_messages: 1024,
            duplicates_window: Duration::from_secs(60),
        }
    }

    /// Refuses settings that can't work, or are not safe.
    pub(super) fn validate(&self) -> Result<(), LinkError> {
        self.validate_trust()?;
        let numbers = [
            ("message_bytes_max", self.message_bytes_max, MESSAGE_BYTES),
            ("links_max", self.links_max, LINKS),
            ("inbox_messages", self.inbox_messages, INBOX_MESSAGES),
        ];
        for (name, number, range) in numbers {
            if !range.contains(&number) {
                let (least, most) = range.into_inner();
                return Err(LinkError::invalid(format!("{name} is {number}: choose from {least} to {most}")));
            }
        }
        let times = [
            ("deadline", self.deadline),
            ("connect_timeout", self.connect_timeout),
            ("idle", self.idle),
            ("duplicates_window", self.duplicates_window),
        ];
        for (name, time) in times {
            if !TIMES.contains(&time) {
                return Err(LinkError::invalid(format!("{name} is {time:?}: choose from 1ms to 60m")));
            }
        }
        if self.duplicates_window < 2 * self.deadline {
            return Err(LinkError::invalid(format!(
                "duplicates_window is {:?} and deadline {:?}: a message is sent again until its deadline, so choose a window of at least twice that",
                self.duplicates_window, self.deadline
            )));
        }
        Ok(())
    }

    /// Whether neither a secret nor TLS is there.
    pub(super) fn is_insecure(&self) -> bool {
        self.secret.is_none() && self.tls.is_none()
    }

    fn validate_trust(&self) -> Result<(), LinkError> {
        if let Some(secret) = &self.secret
            && secret.reveal().len() < SECRET_BYTES_MIN
        {
            return Err(LinkError::invalid(format!(
                "secret has {} bytes: choose one of at least {SECRET_BYTES_MIN}, best 32 random ones in hexadecimal",
                secret.reveal().len()
            )));
        }
        if !self.is_insecure() {
            return Ok(());
        }
        match (self.insecure_on_loopback, self.bind.ip().is_loopback()) {
            (true, true) => Ok(()),
            (true, false) => Err(LinkError::invalid(format!(
                "insecure_on_loopback is set, but {} is no loopback address: bind to 127.0.0.1 or [::1], or give a secret or tls",
                self.bind
            ))),
            (false, _) => Err(LinkError::invalid(
                "there is neither a secret nor tls, so anybody could send messages: give one of them to all nodes, or set insecure_on_loopback and bind to 127.0.0.1",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(bind: &str) -> LinkSettings {
        LinkSettings::new(bind.parse().unwrap())
    }

    #[test]
    fn the_defaults_with_a_secret_or_tls_are_valid() {
        let secret = Some(Password::new("0123456789abcdef"));
        let tls =
            LinkTls { ca: "ca".into(), certificate: "cert".into(), key: "key".into(), server_name: None };
        LinkSettings { secret: secret.clone(), ..settings("0.0.0.0:7") }.validate().unwrap();
        LinkSettings { tls: Some(tls.clone()), ..settings("0.0.0.0:7") }.validate().unwrap();
        LinkSettings { secret, tls: Some(tls), ..settings("[::]:7") }.validate().unwrap();
        LinkSettings { insecure_on_loopback: true, ..settings("[::1]:0") }.validate().unwrap();
    }

    #[test]
    fn what_cannot_work_names_itself() {
        let good =
            LinkSettings { secret: Some(Password::new("0123456789abcdef")), ..settings("127.0.0.1:0") };
        let bad = [
            (LinkSettings { secret: None, ..good.clone() }, "neither a secret nor tls"),
            (LinkSettings { secret: Some(Password::new("short")), ..good.clone() }, "secret has 5 bytes"),
            (LinkSettings { insecure_on_loopback: true, ..settings("0.0.0.0:0") }, "no loopback address"),
            (LinkSettings { message_bytes_max: 0, ..good.clone() }, "message_bytes_max is 0"),
            (LinkSettings { links_max: 0, ..good.clone() }, "links_max is 0"),
            (LinkSettings { inbox_messages: 0, ..good.clone() }, "inbox_messages is 0"),
            (LinkSettings { deadline: Duration::ZERO, ..good.clone() }, "deadline is 0ns"),
            (LinkSettings { connect_timeout: Duration::ZERO, ..good.clone() }, "connect_timeout is 0ns"),
            (LinkSettings { idle: Duration::from_secs(3601), ..good.clone() }, "idle is 3601s"),
            (LinkSettings { duplicates_window: Duration::from_secs(5), ..good.clone() }, "at least twice"),
        ];
        for (settings, words) in bad {
            let error = settings.validate().unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("short"), "{error}");
        }
    }

    #[test]
    fn the_secret_is_not_printed() {
        let settings =
            LinkSettings { secret: Some(Password::new("very secret words")), ..settings("[::1]:0") };
        assert!(!format!("{settings:?}").contains("very secret"));
    }
}
