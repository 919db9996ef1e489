//! [`Place`]: the stores that workers share.

use std::{fmt, path::Path};

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Sqlite,
    Postgres,
    MariaDb,
    Etcd,
}

impl Place {
    pub(crate) const ALL: [Self; 4] = [Self::Sqlite, Self::Postgres, Self::MariaDb, Self::Etcd];

    /// Where it is; a store that is a file is in this folder.
    pub(crate) fn url(self, folder: &Path) -> String {
        match self {
            Self::Sqlite => format!("sqlite:{}", folder.join("store.db").display()),
            Self::Postgres => tenure_testbed::postgres(),
            Self::MariaDb => tenure_testbed::mariadb(),
            Self::Etcd => tenure_testbed::etcd(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::Etcd => "etcd",
        })
    }
}
