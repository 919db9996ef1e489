//! Options that several commands have.

use std::time::Duration;

use clap::Args;

/// Where the cluster is.
#[derive(Args, Clone, Debug)]
pub(crate) struct StoreOptions {
    /// The store: sqlite:path, postgres://..., mysql://..., etcd://...
    #[arg(
        long,
        env = "TENURE_STORE",
        hide_env_values = true,
        default_value = "sqlite:tenure.db",
        value_name = "URL"
    )]
    pub(crate) store: String,

    /// The cluster in it
    #[arg(long, env = "TENURE_CLUSTER", default_value = "default")]
    pub(crate) cluster: String,
}

/// What a node is called that has no name.
pub(crate) fn host_and_process() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default();
    format!("{}-{}", host.to_string_lossy(), std::process::id())
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
