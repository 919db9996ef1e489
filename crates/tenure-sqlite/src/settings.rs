//! [`Settings`]: where the store is and how patient it is.

use std::{fmt, path::PathBuf, time::Duration};

use tenure_store::StoreError;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In a file, for all processes of this machine.
    File(PathBuf),
    /// In the memory of this process, for this store alone. Nothing in it survives.
    Memory,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("sqlite::memory:"),
        }
    }
}

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where it is.
    pub location: Location,
    /// How many threads read. Default: 2.
    pub readers: usize,
    /// How long a commit waits for other processes to finish theirs before it is refused as unavailable. Default: 5 s.
    pub busy_wait: Duration,
    /// How often watches look for themselves, in case the message about a change got lost: when a process was killed between
    /// its commit and the message. Default: 1 s.
    pub reread: Duration,
    /// The largest database file in bytes; a commit that would need more is refused as full. Default: none but the disk's.
    pub max_bytes: Option<u64>,
}

impl Settings {
    /// The defaults for a location.
    #[must_use]
    pub fn new(location: Location) -> Self {
        Self {
            location,
            readers: 2,
            busy_wait: Duration::from_secs(5),
            reread: Duration::from_secs(1),
            max_bytes: None,
        }
    }

    /// The defaults for the location that a URL names: `sqlite:path` or `sqlite::memory:`. The path is taken as it stands.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when it is not such a URL.
    pub fn from_url(url: &str) -> Result<Self, StoreError> {
        let location = match url.strip_prefix("sqlite:") {
            Some(":memory:") => Location::Memory,
            Some("") => {
                return Err(StoreError::invalid(
                    "the URL sqlite: names no file: write sqlite:path or sqlite::memory:",
                ));
            }
            Some(path) => Location::File(path.into()),
            None => {
                return Err(StoreError::invalid(format!(
                    "{url:?} is no SQLite URL: write sqlite:path or sqlite::memory:"
                )));
            }
        };
        Ok(Self::new(location))
    }

    /// Refuses settings that can't work.
    pub(crate) fn validate(&self) -> Result<(), StoreError> {
        if !(1..=64).contains(&self.readers) {
            return Err(StoreError::invalid(format!("readers is {}: choose from 1 to 64", self.readers)));
        }
        if self.reread < Duration::from_millis(1) {
            return Err(StoreError::invalid(format!("reread is {:?}: choose at least 1ms", self.reread)));
        }
        if self.busy_wait > Duration::from_secs(3600) {
            return Err(StoreError::invalid(format!("busy_wait is {:?}: choose at most 1h", self.busy_wait)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file_or_memory() {
        let location = |url| Settings::from_url(url).map(|settings| settings.location);
        assert_eq!(location("sqlite::memory:").unwrap(), Location::Memory);
        assert_eq!(location("sqlite:a b?c.db").unwrap(), Location::File("a b?c.db".into()));
        assert_eq!(location("sqlite:/var/lib/x.db").unwrap(), Location::File("/var/lib/x.db".into()));
        for bad in ["sqlite:", "postgres://h/d", "", "sqlite"] {
            assert!(location(bad).unwrap_err().to_string().contains("sqlite:path"), "{bad}");
        }
    }

    #[test]
    fn settings_that_cannot_work_name_themselves() {
        let good = Settings::new(Location::Memory);
        good.validate().unwrap();
        let bad = [
            ("readers", Settings { readers: 0, ..good.clone() }),
            ("reread", Settings { reread: Duration::ZERO, ..good.clone() }),
            ("busy_wait", Settings { busy_wait: Duration::MAX, ..good.clone() }),
        ];
        for (field, settings) in bad {
            assert!(settings.validate().unwrap_err().to_string().contains(field));
        }
    }
}
