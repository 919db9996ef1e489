//! [`Owner`]: which process a session belongs to, and the evidence that this process is dead.
//!
//! # What it promises
//! [`Owner::proof`] never calls a process dead that still runs. It may well find no proof for one that is dead: then the ttl ends the session.
//! No clock is looked at.
//!
//! # What is known of an owner
//! | part | from | tells apart |
//! | --- | --- | --- |
//! | machine | `/etc/machine-id`, or a setting | machines |
//! | hardware | the firmware's `product_uuid`, under the conditions below | machines that share a machine id |
//! | boot | `/proc/sys/kernel/random/boot_id` | the runs of a kernel |
//! | pid namespace | the inode of `/proc/self/ns/pid` | processes of containers that have the same id |
//! | time namespace | the inode of `/proc/self/ns/time` | start times that can't be compared |
//! | process | its id | the processes of a namespace, at one instant |
//! | started | field 22 of `/proc/self/stat`, in ticks since the boot | processes that had the same id one after the other |
//!
//! Whatever can't be read is unknown, and what is unknown proves nothing, not even to another who does not know it either.
//!
//! # Neighbours: same machine, boot and pid namespace
//! Dead is
//! 1. whoever's id has no process: `kill(id, 0)` says so whatever the rights of the one who asks and however `/proc` is mounted;
//! 2. whoever's id has a process that started at another time. Compared only between owners of one time namespace, because the
//!    kernel adds the *reader's* offset to what it shows, and only where `/proc` shows our own pid namespace;
//! 3. whoever is a zombie with no other thread. (The first thread of a process may end before the others do: that is no death.)
//!
//! A process of another user, or one that is hidden, counts as alive.
//!
//! The inode of a namespace is used again after the namespace is gone. That does no harm: if our namespace has the number of the owner's
//! and is another one, then the owner's has gone with all its processes.
//!
//! # Reboot: same machine and hardware, another boot
//! Machine ids alone do not prove a reboot. Images of containers and templates of virtual machines carry one along, and then many machines with
//! one id run at the same time. So an owner is known by its hardware as well, and only if it is in the kernel's first pid namespace,
//! shows no mark of a container, and the firmware's id can be read (as a rule by root only) and is none that vendors forgot to set. Without it there is
//! no proof by reboot, and [`Owner::never_by_reboot`] does without on purpose.
//!
//! # What is assumed
//! - Two kernels that run at the same time have different boot ids. That fails for virtual machines that were cloned *while they ran* (from a
//!   snapshot with memory). Give each clone a machine name of its own by the setting, or switch proofs off.
//! - For reboots: two kernels that run at the same time never have both the same machine id and the same `product_uuid`. That fails if somebody copied a
//!   virtual machine together with its firmware's id and runs both.
//! - A process that is dead stays dead. That fails for one restored from a checkpoint (CRIU), or with its whole machine from a snapshot: let it join
//!   anew afterwards.

mod hardware;
mod stat;

use std::{fmt, fs, num::NonZero, os::unix::fs::MetadataExt as _};

use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use tenure_store::Name;

use self::stat::Stat;

/// The process that a session belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    machine: Option<Name>,
    /// Known only if another boot of it may be taken for a reboot.
    hardware: Option<NonZero<u128>>,
    boot: Option<NonZero<u128>>,
    pid_namespace: Option<NonZero<u64>>,
    /// `None` on kernels that have none.
    time_namespace: Option<NonZero<u64>>,
    /// At most [`i32::MAX`], as process ids are.
    process: Option<NonZero<u32>>,
    /// Known only to those whose `/proc` shows their own pid namespace.
    started: Option<NonZero<u64>>,
}

/// Why an owner is dead for sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Proof {
    /// There is no process of its id.
    Gone,
    /// The process of its id is another one, which started at another time.
    Replaced,
    /// It has ended, and its parent has not asked how yet.
    Ended,
    /// Its machine has rebooted since.
    Rebooted,
}

impl Owner {
    /// The most bytes of [`Owner::encode`].
    pub const BYTES_MAX: usize = 1 + Name::BYTES_MAX + 16 + 16 + 8 + 8 + 4 + 8;

    /// This process. `machine` is used instead of the machine's id; one that is no [`Name`] makes the owner [unknown](Self::unknown).
    #[must_use]
    pub fn this_process(machine: Option<&str>) -> Self {
        let machine = match machine.map(str::parse) {
            Some(Ok(machine)) => Some(machine),
            Some(Err(_)) => return Self::unknown(),
            None => machine_id(),
        };
        let pid_namespace = namespace("pid");
        Self {
            hardware: hardware::read_for(pid_namespace),
            boot: read("/proc/sys/kernel/random/boot_id").and_then(|text| id128(&text)),
            pid_namespace,
            time_namespace: namespace("time"),
            process: NonZero::new(std::process::id()),
            started: Stat::of_this_process().and_then(|stat| stat.started),
            machine,
        }
    }

    /// The process of this id in our pid namespace, if it can be seen. For tests.
    #[cfg(test)]
    pub(crate) fn of_neighbour(process: u32) -> Option<Self> {
        let stat = Stat::of(i32::try_from(process).ok()?)?;
        Some(Self { process: NonZero::new(process), started: stat.started, ..Self::this_process(None) })
    }

    /// An owner of whom nothing is known: it gives no proof, and there is none of its death. For simulation, where all nodes are in one process.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            machine: None,
            hardware: None,
            boot: None,
            pid_namespace: None,
            time_namespace: None,
            process: None,
            started: None,
        }
    }

    /// The same owner, whom no reboot proves dead, and to whom no reboot proves another dead.
    #[must_use]
    pub fn never_by_reboot(self) -> Self {
        Self { hardware: None, ..self }
    }

    /// The machine's name, if it has one.
    #[must_use]
    pub fn machine(&self) -> Option<&str> {
        self.machine.as_ref().map(Name::as_str)
    }

    /// The process's id in its namespace.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.map(NonZero::get)
    }

    /// What neighbours have in common: boot, pid namespace and machine, as text of at most 310 bytes. Those of whom too little is known share it too, and are
    /// no neighbours all the same.
    #[must_use]
    pub fn place(&self) -> String {
        let boot = self.boot.map_or(0, NonZero::get);
        let namespace = self.pid_namespace.map_or(0, NonZero::get);
        format!("{boot:032x} {namespace} {}", self.machine().unwrap_or_default())
    }

    /// Whether both are processes of one pid namespace of one running kernel.
    #[must_use]
    pub fn is_neighbour(&self, other: &Owner) -> bool {
        let known = self.boot.is_some() && self.pid_namespace.is_some() && self.process.is_some();
        known
            && self.boot == other.boot
            && self.pid_namespace == other.pid_namespace
            && self.machine == other.machine
    }

    /// The proof that `me`, which is this process, has of the owner's death. `None` means alive, or unknown.
    #[must_use]
    pub fn proof(&self, me: &Owner) -> Option<Proof> {
        if self.is_neighbour(me) {
            return self.proof_by_process(me);
        }
        self.proves_reboot(me).then_some(Proof::Rebooted)
    }

    fn proof_by_process(&self, me: &Owner) -> Option<Proof> {
        let process = i32::try_from(self.process?.get()).ok()?;
        if kill(Pid::from_raw(process), None) == Err(Errno::ESRCH) {
            return Some(Proof::Gone);
        }
        // Another's `/proc` would show us strangers.
        me.started?;
        let stat = Stat::of(process)?;
        let comparable = self.started.is_some() && self.time_namespace == me.time_namespace;
        if comparable && stat.started.is_some() && stat.started != self.started {
            return Some(Proof::Replaced);
        }
        stat.has_ended().then_some(Proof::Ended)
    }

    fn proves_reboot(&self, me: &Owner) -> bool {
        let same_machine = self.machine.is_some() && self.machine == me.machine;
        let same_hardware = self.hardware.is_some() && self.hardware == me.hardware;
        let both_boots = self.boot.is_some() && me.boot.is_some();
        same_machine && same_hardware && both_boots && self.boot != me.boot
    }

    /// Appends the owner. Whoever stores it says which format it is.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let machine = self.machine().unwrap_or_default();
        debug_assert!(machine.len() <= usize::from(u8::MAX), "a name's length fits a byte");
        #[allow(clippy::cast_possible_truncation, reason = "a name has at most 255 bytes")]
        out.push(machine.len() as u8);
        out.extend_from_slice(machine.as_bytes());
        out.extend_from_slice(&self.hardware.map_or(0, NonZero::get).to_be_bytes());
        out.extend_from_slice(&self.boot.map_or(0, NonZero::get).to_be_bytes());
        out.extend_from_slice(&self.pid_namespace.map_or(0, NonZero::get).to_be_bytes());
        out.extend_from_slice(&self.time_namespace.map_or(0, NonZero::get).to_be_bytes());
        out.extend_from_slice(&self.process.map_or(0, NonZero::get).to_be_bytes());
        out.extend_from_slice(&self.started.map_or(0, NonZero::get).to_be_bytes());
    }

    /// Takes an owner from the front of `from`, or nothing at all if there is none. What is behind it is the caller's.
    #[must_use]
    pub fn decode(from: &mut &[u8]) -> Option<Self> {
        let (length, rest) = from.split_first()?;
        let (machine, rest) = rest.split_at_checked(usize::from(*length))?;
        let machine = match machine {
            [] => None,
            name => Some(std::str::from_utf8(name).ok()?.parse().ok()?),
        };
        let (hardware, rest) = rest.split_first_chunk()?;
        let (boot, rest) = rest.split_first_chunk()?;
        let (pid_namespace, rest) = rest.split_first_chunk()?;
        let (time_namespace, rest) = rest.split_first_chunk()?;
        let (process, rest) = rest.split_first_chunk()?;
        let (started, rest) = rest.split_first_chunk()?;
        let process = u32::from_be_bytes(*process);
        // A greater one would be negative, and mean a group of processes or all of them.
        i32::try_from(process).ok()?;
        *from = rest;
        Some(Self {
            machine,
            hardware: NonZero::new(u128::from_be_bytes(*hardware)),
            boot: NonZero::new(u128::from_be_bytes(*boot)),
            pid_namespace: NonZero::new(u64::from_be_bytes(*pid_namespace)),
            time_namespace: NonZero::new(u64::from_be_bytes(*time_namespace)),
            process: NonZero::new(process),
            started: NonZero::new(u64::from_be_bytes(*started)),
        })
    }
}

/// For people: the id, and the machine's name, of which eight digits are enough if it is a machine id.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(f, "process {process}")?,
            None => f.write_str("an unknown process")?,
        }
        match self.machine() {
            Some(machine) if id128(machine).is_some() => write!(f, " on machine {}...", &machine[..8]),
            Some(machine) => write!(f, " on machine {machine}"),
            None => f.write_str(" on a machine without a name"),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "there is no such process any more",
            Self::Replaced => "its process id belongs to another process now",
            Self::Ended => "its process has ended",
            Self::Rebooted => "its machine has rebooted since",
        })
    }
}

/// The machine's id. An image that has not booted yet holds a word in its place, which is none.
fn machine_id() -> Option<Name> {
    let text = read("/etc/machine-id")?;
    id128(&text).and_then(|_| text.parse().ok())
}

/// The inode of one of this process's namespaces.
fn namespace(kind: &str) -> Option<NonZero<u64>> {
    let inode = fs::metadata(format!("/proc/self/ns/{kind}")).ok()?.ino();
    NonZero::new(inode)
}

/// The text of a small file of the system.
fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// An id of 32 hexadecimal digits, with or without the hyphens of a UUID. Zero is none.
fn id128(text: &str) -> Option<NonZero<u128>> {
    let digits: String = match text.len() {
        32 => text.to_owned(),
        36 => text.split('-').collect(),
        _ => return None,
    };
    let whole = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    whole.then(|| u128::from_str_radix(&digits, 16).ok()).flatten().and_then(NonZero::new)
}

#[cfg(test)]
mod tests;
