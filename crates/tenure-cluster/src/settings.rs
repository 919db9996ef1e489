//! [`Settings`]: how a node takes part in a cluster.

use std::{collections::BTreeMap, time::Duration};

use tenure_store::{Name, Reason, StoreError};

use crate::{flaws::Flaws, peer::LinkSettings, will::WillProgram};

/// How a node takes part in a cluster. [`Cluster::join`](crate::Cluster::join) checks all of it before any I/O.
///
/// ```
/// use std::time::Duration;
/// use tenure_cluster::Settings;
///
/// let mut settings = Settings::new("orders", "worker-1")?;
/// settings.ttl = Duration::from_secs(6);
/// let refusal = settings.validate().unwrap_err().to_string();
/// assert!(refusal.contains("renewal_interval x 2 < ttl"));
/// # Ok::<(), tenure_store::StoreError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The cluster: nodes that open one store under one name are in one.
    pub cluster: Name,
    /// The node: stable over restarts, and no other's.
    pub node: Name,
    /// Where other nodes reach this one, if they can. With `links` and without this, it is where the links listen.
    pub address: Option<String>,
    /// How messages from other nodes reach this one, if they do.
    pub links: Option<LinkSettings>,
    /// What others may want to know of it, such as `zone=a`.
    pub labels: BTreeMap<String, String>,
    /// The version of the program, for others to see.
    pub version: String,
    /// How long a session lives without being renewed.
    pub ttl: Duration,
    /// How often the session is renewed.
    pub renewal_interval: Duration,
    /// A session that was not renewed for so long is suspect.
    pub liveness_window: Duration,
    /// How long members that are gone are remembered.
    pub gone_kept: Duration,
    /// Whether a session that another live process has under this node's name is ended, instead of being respected.
    pub take_over: bool,
    /// Whether others on this machine may end a session whose process they can prove dead.
    pub proof_of_death: bool,
    /// What this machine is called, if not by its own id.
    pub machine: Option<String>,
    /// The program that ends the session when this process dies, if there is to be one.
    pub last_will: Option<WillProgram>,
    /// Mistakes that a simulation plants.
    flaws: Flaws,
}

impl Settings {
    /// The shortest ttl: below it, ordinary hiccups of a store or a scheduler would end sessions.
    pub const TTL_MIN: Duration = Duration::from_secs(1);

    /// The longest ttl: a session that nobody renews should not stay for longer.
    pub const TTL_MAX: Duration = Duration::from_secs(24 * 3600);

    /// The most bytes of address, labels and version together: they are read by every node at every change of the member.
    pub const DESCRIPTION_BYTES_MAX: usize = 4096;

    /// The usual settings for a node of a cluster: ttl 15 s, renewed every 5 s, suspect after 10 s.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when one of them is no [`Name`].
    pub fn new(cluster: &str, node: &str) -> Result<Self, StoreError> {
        Ok(Self::usual(cluster.parse()?, node.parse()?))
    }

    /// Settings for looking at a cluster without taking part.
    pub(crate) fn of_cluster(cluster: Name) -> Self {
        Self::usual(cluster.clone(), cluster)
    }

    fn usual(cluster: Name, node: Name) -> Self {
        Self {
            cluster,
            node,
            address: None,
            links: None,
            labels: BTreeMap::new(),
            version: String::new(),
            ttl: Duration::from_secs(15),
            renewal_interval: Duration::from_secs(5),
            liveness_window: Duration::from_secs(10),
            gone_kept: Duration::from_secs(3600),
            take_over: false,
            proof_of_death: true,
            machine: None,
            last_will: None,
            flaws: Flaws::NONE,
        }
    }

    /// These settings for a node that makes mistakes.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn with_flaws(mut self, flaws: Flaws) -> Self {
        self.flaws = flaws;
        self
    }

    pub(crate) fn flaws(&self) -> Flaws {
        self.flaws
    }

    /// This ttl, renewed at a third of it, suspect after two thirds.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        (self.ttl, self.renewal_interval, self.liveness_window) = (ttl, ttl / 3, ttl * 2 / 3);
        self
    }

    /// Whether these settings fit together.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], naming the values, the rule they break and what to do.
    pub fn validate(&self) -> Result<(), StoreError> {
        let Self { ttl, renewal_interval: interval, liveness_window: window, .. } = *self;
        let rule = |holds: bool, rule: &str, advice: &str| {
            let found = format!("ttl {ttl:?}, renewal_interval {interval:?}, liveness_window {window:?}");
            if holds {
                Ok(())
            } else {
                Err(refused(format!("{rule} must hold, but there is {found}: {advice}")))
            }
        };
        rule(ttl >= Self::TTL_MIN, "ttl >= 1 s", "use a longer ttl")?;
        rule(ttl <= Self::TTL_MAX, "ttl <= 24 h", "use a shorter ttl")?;
        rule(!interval.is_zero(), "renewal_interval > 0", "a third of the ttl is usual")?;
        rule(interval * 2 < ttl, "renewal_interval x 2 < ttl", "renew more often, or use a longer ttl")?;
        rule(
            interval < window,
            "renewal_interval < liveness_window",
            "renew more often, or use a longer window",
        )?;
        rule(window < ttl, "liveness_window < ttl", "use a shorter window, or a longer ttl")?;
        if let Some(machine) = &self.machine {
            machine.parse::<Name>()?;
        }
        self.validate_description()
    }

    fn validate_description(&self) -> Result<(), StoreError> {
        if let Some((label, _)) = self.labels.iter().find(|(label, _)| label.is_empty()) {
            let value = &self.labels[label];
            return Err(refused(format!("a label without a name has the value {value:?}: name it")));
        }
        let labels: usize = self.labels.iter().map(|(label, value)| label.len() + value.len()).sum();
        let bytes = labels + self.version.len() + self.address.as_ref().map_or(0, String::len);
        if bytes > Self::DESCRIPTION_BYTES_MAX {
            return Err(refused(format!(
                "address, labels and version of node {} have {bytes} bytes, and may have {}: shorten them",
                self.node,
                Self::DESCRIPTION_BYTES_MAX
            )));
        }
        Ok(())
    }

    /// What the drift of two clocks against each other may be worth during one ttl. The owner of a session stops so much before the ttl
    /// is over, and wardens wait so much longer: so clocks may differ in speed by a tenth.
    pub(crate) fn margin(ttl: Duration) -> Duration {
        ttl / 20
    }
}

fn refused(words: String) -> StoreError {
    StoreError::invalid(Reason::new(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ttl: u64, interval: u64, window: u64) -> Settings {
        let ms = Duration::from_millis;
        let usual = Settings::new("c", "n").unwrap();
        Settings { ttl: ms(ttl), renewal_interval: ms(interval), liveness_window: ms(window), ..usual }
    }

    #[test]
    fn each_rule_names_itself() {
        let cases = [
            (with(999, 300, 600), "ttl >= 1 s"),
            (with(86_400_001, 300, 600), "ttl <= 24 h"),
            (with(1000, 0, 600), "renewal_interval > 0"),
            (with(1000, 500, 600), "renewal_interval x 2 < ttl"),
            (with(1000, 300, 300), "renewal_interval < liveness_window"),
            (with(1000, 300, 1000), "liveness_window < ttl"),
        ];
        for (settings, rule) in cases {
            let refusal = settings.validate().unwrap_err().to_string();
            assert!(refusal.contains(rule) && refusal.contains("ttl "), "{refusal}");
        }
        with(1000, 499, 500).validate().unwrap();
        Settings::new("c", "n").unwrap().validate().unwrap();
        Settings::new("c", "n").unwrap().with_ttl(Duration::from_secs(1)).validate().unwrap();
    }

    #[test]
    fn a_description_is_bounded() {
        let mut settings = Settings::new("c", "n").unwrap();
        settings.labels.insert("zone".into(), "x".repeat(Settings::DESCRIPTION_BYTES_MAX));
        assert!(settings.validate().unwrap_err().to_string().contains("4100 bytes"));
        settings.labels = [(String::new(), "a".into())].into();
        assert!(settings.validate().unwrap_err().to_string().contains("name it"));
    }
}
