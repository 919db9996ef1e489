//! Options that several commands have.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use tenure::{
    cluster::{Cluster, Onlooker, Settings},
    store::{Name, Store, StoreError},
};

use crate::exit::Exit;

/// What these options stand under in help.
const WHERE: &str = "Where the cluster is";

/// Where the cluster is.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreOptions {
    /// The store: sqlite:path, postgres://..., mysql://..., etcd://...
    #[arg(
        long,
        env = "TENURE_STORE",
        hide_env_values = true,
        default_value = "sqlite:tenure.db",
        value_name = "URL",
        help_heading = WHERE
    )]
    pub(crate) store: String,

    /// The cluster in it
    #[arg(
        long,
        env = "TENURE_CLUSTER",
        hide_env_values = true,
        default_value = "default",
        value_name = "NAME",
        value_parser = cluster,
        help_heading = WHERE
    )]
    pub(crate) cluster: String,

    /// A TOML file with options [default: tenure.toml, if it is there]
    #[arg(long, env = "TENURE_CONFIG", hide_env_values = true, value_name = "FILE", help_heading = WHERE)]
    config: Option<PathBuf>,
}

impl StoreOptions {
    /// Opens the store.
    ///
    /// # Errors
    /// When the URL is none, or the store can't be reached.
    pub(crate) async fn open(&self) -> anyhow::Result<Arc<dyn Store>> {
        open(&self.store).await
    }

    /// Looks at the cluster without taking part.
    ///
    /// # Errors
    /// As [`StoreOptions::open`]; when the cluster is no name; when there is no such file: to look must not make it.
    pub(crate) async fn look(&self) -> anyhow::Result<Onlooker> {
        let cluster: Name = self.cluster.parse()?;
        self.must_exist()?;
        Ok(Onlooker::new(self.open().await?, cluster))
    }

    /// Takes part for as long as a command takes: for what needs a session.
    ///
    /// # Errors
    /// As [`StoreOptions::look`].
    pub(crate) async fn visit(&self) -> anyhow::Result<Cluster> {
        let settings = Settings::new(&self.cluster, &format!("visit-{}", host_and_process()))?;
        self.must_exist()?;
        Cluster::join(self.open().await?, settings)
            .await
            .with_context(|| Exit::Unavailable.context("can't join the cluster"))
    }

    fn must_exist(&self) -> anyhow::Result<()> {
        let file = self.store.strip_prefix("sqlite:").filter(|path| !matches!(*path, "" | ":memory:"));
        match file {
            Some(path) if !Path::new(path).exists() => {
                let words = format!(
                    "there is no file {path:?}, so there is no cluster in it: name the store with --store URL or TENURE_STORE"
                );
                Err(Exit::Unavailable.context(words).into())
            }
            _ => Ok(()),
        }
    }

    /// What kind of store it is: the URL may have a password in it.
    pub(crate) fn kind(&self) -> &str {
        self.store.split(':').next().unwrap_or_default()
    }
}

/// Opens a store.
///
/// # Errors
/// As [`StoreOptions::open`].
pub(crate) async fn open(url: &str) -> anyhow::Result<Arc<dyn Store>> {
    tenure::open(url).await.map_err(|error| {
        let wrong = matches!(error, StoreError::Invalid(_));
        let exit = if wrong { Exit::Command(crate::WRONG) } else { Exit::Unavailable };
        anyhow::Error::new(error).context(exit.context("can't open the store"))
    })
}

/// What a node is called that has no name.
pub(crate) fn host_and_process() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}-{}", host.to_string_lossy(), std::process::id())
}

/// Reads a name, as users may call things.
pub(crate) fn name(text: &str) -> Result<Name, String> {
    text.parse().map_err(|error: StoreError| match error {
        // That it is invalid is said around it.
        StoreError::Invalid(reason) => reason.to_string(),
        error => error.to_string(),
    })
}

/// Reads the name of a cluster.
fn cluster(text: &str) -> Result<String, String> {
    name(text).map(|name| name.to_string())
}

/// Reads a time such as `500ms`, `15s`, `2m` or `1h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a number and a unit, such as 500ms, 15s, 2m or 1h".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| format!("{number:?} is no number: write it as in 15s"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("1h"), Ok(Duration::from_secs(3600)));
        for wrong in ["", "5", "s", "-1s", "1.2.3s", "1d", "99999999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
