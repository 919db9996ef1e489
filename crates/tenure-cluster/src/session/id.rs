//! [`SessionId`]: one incarnation of a node, told apart from every other.

use std::{fmt, str::FromStr};

use tenure_store::{Env, StoreError};

/// The id of a session: random, never used twice. Prints as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    /// How many bytes it has.
    pub const BYTES: usize = 16;

    /// No session: stands where there is none.
    pub(crate) const NONE: SessionId = SessionId(0);

    /// The first that can be a lease's: those of nodes are all below.
    pub(crate) const FIRST_LEASE: SessionId = SessionId(1 << 127);

    /// A new one, of a node.
    #[must_use]
    pub fn random(env: &Env) -> Self {
        let id = (u128::from(env.random_u64()) << 64) | u128::from(env.random_u64());
        Self((id & !Self::FIRST_LEASE.0).max(1))
    }

    /// A new one, of a lease.
    pub(crate) fn random_lease(env: &Env) -> Self {
        Self(Self::random(env).0 | Self::FIRST_LEASE.0)
    }

    /// Whether it is that of a lease, and not of a node.
    #[must_use]
    pub fn is_lease(self) -> bool {
        self >= Self::FIRST_LEASE
    }

    /// The id as bytes, in the order in which ids sort.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0.to_be_bytes()
    }

    /// The id that has these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

impl FromStr for SessionId {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let digits = text.len() == 2 * Self::BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = digits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        id.map(Self).ok_or_else(|| {
            StoreError::invalid(format!(
                "{text:?} is no session id: give the 32 hexadecimal digits that name one"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_print() {
        let id = SessionId::random(&Env::system());
        assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        assert_eq!(SessionId::from_bytes(id.to_bytes()), id);
        for text in ["", "12", "+0000000000000000000000000000001", "zz000000000000000000000000000000"] {
            assert!(text.parse::<SessionId>().unwrap_err().to_string().contains("32 hexadecimal"), "{text}");
        }
    }
}
