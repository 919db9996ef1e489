//! [`ClusterKey`]: proofs that both ends of a link know the cluster's secret, and the keys that seal what is said on it.
//!
//! A proof is `HMAC-SHA256(secret, label, transcript, more)`. The transcript is all of [`Hello`] and [`Challenge`]: version, cluster, both
//! nonces, both nodes, both sessions, whom the opener wants. So
//! - a proof is good for one handshake only, since each side has put in a nonce of its own;
//! - nothing of it can be changed by who passes it on: both sides prove what they have seen;
//! - a proof sent back to whoever made it is worth nothing, since its label names the side that makes it;
//! - the sessions that a link is between are proven, so that messages need not repeat them.
//!
//! Each part goes in behind its length, so that no two lists of parts look alike. Both keys of a link come from the transcript in the same
//! way: whoever relays a handshake has the link in hand, and can't say anything on it.
//!
//! Without a secret (TLS alone, or insecure on loopback) the key is empty: proofs then prove nothing, and one code serves all cases.

use std::fmt;

use bytes::Bytes;
use ring::hmac;
use tenure_store::{Env, Password};

use super::{
    seal::Seal,
    wire::{Challenge, Hello, Verdict},
};

/// How many bytes a nonce has: never drawn twice by chance.
const NONCE_BYTES: usize = 32;

/// What the secret of a cluster is used through. It is never printed.
#[derive(Clone)]
pub(super) struct ClusterKey(hmac::Key);

/// A proof that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof is not one of this secret")]
pub(super) struct BadProof;

/// All that both sides have said before they prove anything.
#[derive(Debug)]
pub(super) struct Transcript(Vec<u8>);

/// The seals of one link.
#[derive(Debug)]
pub(super) struct Seals {
    /// What the opener says.
    pub(super) opener: Seal,
    /// What the listener says.
    pub(super) listener: Seal,
}

/// A nonce.
pub(super) fn nonce(env: &Env) -> Bytes {
    let words: [[u8; 8]; NONCE_BYTES / 8] = std::array::from_fn(|_| env.random_u64().to_be_bytes());
    Bytes::from(words.concat())
}

impl Transcript {
    /// That of a handshake. None if the other side has not put in a nonce as long as ours: both are what proofs are fresh by.
    pub(super) fn new(hello: &Hello, challenge: &Challenge) -> Option<Self> {
        if hello.nonce.len() != NONCE_BYTES || challenge.nonce.len() != NONCE_BYTES {
            return None;
        }
        let version = hello.version.to_be_bytes();
        let parts: [&[u8]; 10] = [
            &version,
            hello.cluster.as_bytes(),
            &hello.nonce,
            hello.from_node.as_bytes(),
            &hello.from_session,
            hello.to_node.as_bytes(),
            &hello.to_session,
            &challenge.nonce,
            challenge.node.as_bytes(),
            &challenge.session,
        ];
        Some(Self(framed(&parts)))
    }
}

impl ClusterKey {
    /// The key of a secret, or of none.
    pub(super) fn new(secret: Option<&Password>) -> Self {
        let secret = secret.map_or(&[][..], |secret| secret.reveal().as_bytes());
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// What the opener proves itself with.
    pub(super) fn opener_proof(&self, transcript: &Transcript) -> Bytes {
        self.sign("opener proves", transcript, &[])
    }

    /// Checks what an opener sent, in a time that tells nothing about what would be right.
    pub(super) fn check_opener(&self, transcript: &Transcript, proof: &[u8]) -> Result<(), BadProof> {
        self.check("opener proves", transcript, &[], proof)
    }

    /// What the listener proves itself and its verdict with.
    pub(super) fn listener_proof(&self, transcript: &Transcript, verdict: Verdict, most: u64) -> Bytes {
        self.sign("listener proves", transcript, &welcome(verdict as i32, most))
    }

    /// Checks what a listener sent, in a time that tells nothing about what would be right.
    pub(super) fn check_listener(
        &self,
        transcript: &Transcript,
        verdict: i32,
        most: u64,
        proof: &[u8],
    ) -> Result<(), BadProof> {
        self.check("listener proves", transcript, &welcome(verdict, most), proof)
    }

    /// The seals of the link that is opened by this handshake.
    pub(super) fn seals(&self, transcript: &Transcript) -> Seals {
        Seals {
            opener: Seal::new(&self.sign("opener seals", transcript, &[])),
            listener: Seal::new(&self.sign("listener seals", transcript, &[])),
        }
    }

    fn sign(&self, label: &str, transcript: &Transcript, more: &[u8]) -> Bytes {
        let tag = hmac::sign(&self.0, &framed(&[label.as_bytes(), &transcript.0, more]));
        Bytes::copy_from_slice(tag.as_ref())
    }

    fn check(&self, label: &str, transcript: &Transcript, more: &[u8], proof: &[u8]) -> Result<(), BadProof> {
        let signed = framed(&[label.as_bytes(), &transcript.0, more]);
        hmac::verify(&self.0, &signed, proof).map_err(|_| BadProof)
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(hidden)")
    }
}

fn welcome(verdict: i32, most: u64) -> Vec<u8> {
    [&verdict.to_be_bytes()[..], &most.to_be_bytes()[..]].concat()
}

/// The parts, each behind its length.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| 8 + part.len()).sum());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            version: 1,
            cluster: "c".into(),
            nonce: Bytes::from_static(&[1; NONCE_BYTES]),
            from_node: "a".into(),
            from_session: Bytes::from_static(&[2; 16]),
            to_node: "b".into(),
            to_session: Bytes::from_static(&[3; 16]),
        }
    }

    fn challenge() -> Challenge {
        Challenge {
            nonce: Bytes::from_static(&[4; NONCE_BYTES]),
            node: "b".into(),
            session: Bytes::from_static(&[3; 16]),
        }
    }

    fn key() -> ClusterKey {
        ClusterKey::new(Some(&Password::new("0123456789abcdef")))
    }

    fn transcript() -> Transcript {
        Transcript::new(&hello(), &challenge()).unwrap()
    }

    #[test]
    fn both_sides_with_one_secret_agree() {
        let (key, transcript) = (key(), transcript());
        key.check_opener(&transcript, &key.opener_proof(&transcript)).unwrap();
        let proof = key.listener_proof(&transcript, Verdict::Accepted, 9);
        key.check_listener(&transcript, Verdict::Accepted as i32, 9, &proof).unwrap();
    }

    #[test]
    fn another_secret_and_no_secret_prove_nothing() {
        let (key, transcript) = (key(), transcript());
        for other in [ClusterKey::new(Some(&Password::new("0123456789abcdeF"))), ClusterKey::new(None)] {
            assert_eq!(key.check_opener(&transcript, &other.opener_proof(&transcript)), Err(BadProof));
            let proof = other.listener_proof(&transcript, Verdict::Accepted, 9);
            assert_eq!(key.check_listener(&transcript, 1, 9, &proof), Err(BadProof));
        }
        assert_eq!(key.check_opener(&transcript, &[]), Err(BadProof));
    }

    #[test]
    fn a_proof_sent_back_is_worth_nothing() {
        let (key, transcript) = (key(), transcript());
        let opener = key.opener_proof(&transcript);
        assert_eq!(key.check_listener(&transcript, 1, 9, &opener), Err(BadProof));
        let listener = key.listener_proof(&transcript, Verdict::Accepted, 9);
        assert_eq!(key.check_opener(&transcript, &listener), Err(BadProof));
    }

    #[test]
    fn whatever_is_changed_on_the_way_shows() {
        let other = || Bytes::from_static(&[9; NONCE_BYTES]);
        let session = || Bytes::from_static(&[9; 16]);
        let hellos = [
            Hello { version: 2, ..hello() },
            Hello { cluster: "d".into(), ..hello() },
            Hello { nonce: other(), ..hello() },
            Hello { from_node: "x".into(), ..hello() },
            Hello { from_session: session(), ..hello() },
            Hello { to_node: "x".into(), ..hello() },
            Hello { to_session: session(), ..hello() },
            // The same bytes in a row.
            Hello { cluster: String::new(), from_node: "ca".into(), ..hello() },
        ];
        let challenges = [
            Challenge { nonce: other(), ..challenge() },
            Challenge { node: "x".into(), ..challenge() },
            Challenge { session: session(), ..challenge() },
        ];
        let changed = hellos
            .iter()
            .map(|hello| Transcript::new(hello, &challenge()))
            .chain(challenges.iter().map(|challenge| Transcript::new(&hello(), challenge)));
        let (key, proof) = (key(), key().opener_proof(&transcript()));
        for transcript in changed {
            assert_eq!(key.check_opener(&transcript.unwrap(), &proof), Err(BadProof));
        }
        let proof = key.listener_proof(&transcript(), Verdict::WrongSession, 9);
        assert_eq!(key.check_listener(&transcript(), Verdict::Accepted as i32, 9, &proof), Err(BadProof));
        assert_eq!(
            key.check_listener(&transcript(), Verdict::WrongSession as i32, 10, &proof),
            Err(BadProof)
        );
    }

    #[test]
    fn a_short_nonce_makes_no_transcript() {
        let short = Hello { nonce: Bytes::from_static(&[1; 31]), ..hello() };
        assert!(Transcript::new(&short, &challenge()).is_none());
        let short = Challenge { nonce: Bytes::new(), ..challenge() };
        assert!(Transcript::new(&hello(), &short).is_none());
    }

    #[test]
    fn nonces_differ_and_the_key_is_not_printed() {
        let env = Env::system();
        assert_ne!(nonce(&env), nonce(&env));
        assert_eq!(nonce(&env).len(), NONCE_BYTES);
        assert_eq!(format!("{:?}", key()), "ClusterKey(hidden)");
    }
}
