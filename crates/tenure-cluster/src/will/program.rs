//! [`WillProgram`]: what is run to hold a last will, and where it finds the store.

use std::path::PathBuf;

use tenure_store::Name;

use super::{SecretUrl, Will, WillError};
use crate::{Owner, SessionId};

/// The program that holds a node's last will, and where it finds the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WillProgram {
    /// The program: a path, from the working directory if it is relative. It is not searched for: it will be told a password.
    pub path: PathBuf,
    /// Its arguments, which everybody on the machine can read.
    pub arguments: Vec<String>,
    url: SecretUrl,
}

impl WillProgram {
    /// The program at `path`, which finds the store at `url`.
    ///
    /// # Errors
    /// [`WillError::UrlTooLong`].
    pub fn new(path: impl Into<PathBuf>, url: impl Into<String>) -> Result<Self, WillError> {
        let url = url.into();
        if url.len() > SecretUrl::BYTES_MAX {
            return Err(WillError::UrlTooLong { bytes: url.len(), most: SecretUrl::BYTES_MAX });
        }
        Ok(Self { path: path.into(), arguments: Vec::new(), url: SecretUrl(url) })
    }

    /// With one more argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The will to end this session when `owner` dies.
    #[must_use]
    pub fn will(&self, cluster: &Name, session: SessionId, owner: &Owner) -> Will {
        Will { url: self.url.clone(), cluster: cluster.clone(), session, owner: owner.clone() }
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::Env;

    use super::*;

    #[test]
    fn a_url_is_bounded_and_never_printed() {
        let program = WillProgram::new("tenure", "postgres://u:secret@h/d").unwrap().argument("last-will");
        let session = SessionId::random(&Env::system());
        let will = program.will(&"c".parse().unwrap(), session, &Owner::this_process(None));
        let printed = format!("{program:?} {will:?}");
        assert!(printed.contains("hidden") && !printed.contains("secret"), "{printed}");
        assert_eq!(will.url(), "postgres://u:secret@h/d");
        let error = WillProgram::new("tenure", "x".repeat(3073)).unwrap_err().to_string();
        assert!(error.contains("3073") && error.contains("3072") && !error.contains("xx"), "{error}");
    }
}
