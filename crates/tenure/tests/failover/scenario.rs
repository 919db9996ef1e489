//! [`Scenario`]: what happens to the leader, and how its node is set up.

use std::{fmt, time::Duration};

use tenure::cluster::Settings;

/// One of the ways in which an office changes hands.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Its name, as a test.
    pub(crate) name: &'static str,
    /// Its name, in the table.
    pub(crate) words: &'static str,
    pub(crate) fault: Fault,
    /// The ttl, if it is not the usual one.
    ttl: Option<Duration>,
    /// Whether each worker has a last will.
    pub(crate) last_will: bool,
    /// Whether workers that die are ended by those that can prove it.
    pub(crate) proof_of_death: bool,
    /// Whether each worker is on a machine of its own, as far as it knows.
    pub(crate) apart: bool,
}

/// What happens to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It resigns.
    Resign,
    /// It is killed, and started again when another leads.
    Kill,
    /// It is killed together with all others, and all are started again at once.
    KillAll,
    /// It is stopped until another leads.
    Stop,
    /// It is cut off from the store until another leads.
    Cut,
}

impl Scenario {
    pub(crate) const ALL: &[Self] = &[
        Self { name: "resignation", words: "clean resignation", fault: Fault::Resign, ..Self::USUAL },
        Self { name: "last_will", words: "kill -9, last will", last_will: true, ..Self::USUAL },
        Self {
            name: "proof_of_death",
            words: "kill -9, proof of death by neighbours",
            proof_of_death: true,
            ..Self::USUAL
        },
        Self {
            name: "ghosts",
            words: "kill -9 of all, started again at once",
            fault: Fault::KillAll,
            proof_of_death: true,
            ..Self::USUAL
        },
        Self { name: "death_elsewhere", words: "kill -9, others on another machine", ..Self::APART },
        Self { name: "stop", words: "SIGSTOP beyond the ttl, SIGCONT", fault: Fault::Stop, ..Self::APART },
        Self { name: "cut", words: "store cut off from the leader only", fault: Fault::Cut, ..Self::APART },
    ];

    const USUAL: Self = Self {
        name: "",
        words: "",
        fault: Fault::Kill,
        ttl: None,
        last_will: false,
        proof_of_death: false,
        apart: false,
    };

    /// All that is left to the others is the ttl: so it is the shortest.
    const APART: Self =
        Self { ttl: Some(Settings::TTL_MIN), proof_of_death: true, apart: true, ..Self::USUAL };

    /// The settings of a worker.
    pub(crate) fn settings(&self, cluster: &str, node: &str) -> Settings {
        let mut settings = Settings::new(cluster, node).unwrap();
        if let Some(ttl) = self.ttl {
            settings = settings.with_ttl(ttl);
        }
        settings.proof_of_death = self.proof_of_death;
        settings.machine = self.apart.then(|| format!("machine-of-{node}"));
        settings
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.settings("c", "n").ttl
    }

    /// Whether the fault tells others that the leader's word, to lead until its deadline, is void. Else they have to wait until then.
    pub(crate) fn voids_deadline(&self) -> bool {
        match self.fault {
            Fault::Resign => true,
            Fault::Kill | Fault::KillAll => self.last_will || self.proof_of_death && !self.apart,
            Fault::Stop | Fault::Cut => false,
        }
    }

    /// Its place in the table.
    pub(crate) fn number(&self) -> usize {
        Self::ALL.iter().position(|scenario| scenario.name == self.name).unwrap_or_default()
    }

    pub(crate) fn named(name: &str) -> &'static Self {
        Self::ALL.iter().find(|scenario| scenario.name == name).expect("the name of a scenario")
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
