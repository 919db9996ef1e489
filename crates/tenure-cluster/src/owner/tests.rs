//! Owners alive, dead in every way, and out of sight.

use std::process::{Child, Command, Stdio};

use super::*;

/// A process that lives until it is killed, and is reaped when dropped.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn owner(&self, me: &Owner) -> Owner {
        Owner { machine: me.machine.clone(), ..Owner::of_neighbour(self.0.id()).unwrap() }
    }

    /// Kills it and waits until it is a zombie.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        let id = i32::try_from(self.0.id()).unwrap();
        while !Stat::of(id).unwrap().has_ended() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn me() -> Owner {
    let me = Owner::this_process(Some("here"));
    assert!(me.boot.is_some() && me.pid_namespace.is_some() && me.started.is_some(), "{me:?}");
    me
}

fn plus_one(number: Option<NonZero<u64>>) -> Option<NonZero<u64>> {
    number.and_then(|number| number.checked_add(1))
}

/// Two boots of a machine whose hardware is known, the second of them ours.
fn two_boots() -> (Owner, Owner) {
    let me = Owner { hardware: NonZero::new(7), boot: NonZero::new(2), ..me() };
    (Owner { boot: NonZero::new(1), ..me.clone() }, me)
}

#[test]
fn whoever_asks_is_alive() {
    let me = me();
    assert_eq!(me.proof(&me), None);
    assert_eq!(Owner::this_process(Some("here")), me);
    assert_eq!(me.process_id(), Some(std::process::id()));
    let unnamed = Owner::this_process(None);
    assert_eq!(unnamed.proof(&unnamed), None);
}

#[test]
fn a_child_dies() {
    let me = me();
    let mut child = Victim::new();
    let owner = child.owner(&me);
    assert_eq!(owner.proof(&me), None, "it runs");
    child.kill();
    assert_eq!(owner.proof(&me), Some(Proof::Ended), "a zombie");
    child.0.wait().unwrap();
    assert_eq!(owner.proof(&me), Some(Proof::Gone), "reaped");
}

#[test]
fn a_stopped_child_lives() {
    let me = me();
    let child = Victim::new();
    let owner = child.owner(&me);
    let id = Pid::from_raw(i32::try_from(child.0.id()).unwrap());
    kill(id, nix::sys::signal::Signal::SIGSTOP).unwrap();
    assert_eq!(owner.proof(&me), None);
}

#[test]
fn a_later_process_of_the_same_id_is_another() {
    let me = me();
    let child = Victim::new();
    let owner = child.owner(&me);
    let earlier = Owner { started: plus_one(owner.started), ..owner.clone() };
    assert_eq!(earlier.proof(&me), Some(Proof::Replaced));
    // Where start times can't be compared, somebody of that id means alive.
    let elsewhen = Owner { time_namespace: plus_one(me.time_namespace), ..earlier.clone() };
    assert_eq!(elsewhen.proof(&me), None, "another time namespace");
    let unknown = Owner { started: None, ..earlier.clone() };
    assert_eq!(unknown.proof(&me), None, "a start time that is unknown");
    let blind = Owner { started: None, ..me.clone() };
    assert_eq!(earlier.proof(&blind), None, "the /proc of another namespace");
}

#[test]
fn a_child_is_dead_even_to_those_who_see_no_proc() {
    let me = me();
    let blind = Owner { started: None, ..me.clone() };
    let mut child = Victim::new();
    let owner = child.owner(&me);
    child.kill();
    assert_eq!(owner.proof(&blind), None, "a zombie looks alive to them");
    child.0.wait().unwrap();
    assert_eq!(owner.proof(&blind), Some(Proof::Gone));
}

#[test]
fn there_is_no_proof_about_others_than_neighbours() {
    let me = me();
    let mut child = Victim::new();
    let dead = child.owner(&me);
    child.kill();
    child.0.wait().unwrap();
    assert!(dead.proof(&me).is_some());
    let others = [
        Owner { machine: Some("there".parse().unwrap()), ..dead.clone() },
        Owner { machine: None, ..dead.clone() },
        Owner { boot: NonZero::new(1), ..dead.clone() },
        Owner { boot: None, ..dead.clone() },
        Owner { pid_namespace: plus_one(dead.pid_namespace), ..dead.clone() },
        Owner { pid_namespace: None, ..dead.clone() },
        Owner { process: None, ..dead.clone() },
        Owner::unknown(),
    ];
    for other in others {
        assert_eq!(other.proof(&me), None, "{other:?}");
        assert!(!other.is_neighbour(&me));
        let unknown = Owner { boot: other.boot, pid_namespace: other.pid_namespace, ..me.clone() };
        assert!(other.boot.is_some() && other.pid_namespace.is_some() || other.proof(&unknown).is_none());
    }
    let unnamed = Owner { machine: None, ..dead };
    let me = Owner { machine: None, ..me };
    assert_eq!(unnamed.proof(&me), Some(Proof::Gone), "the boot tells machines apart that have no name");
}

#[test]
fn a_reboot_is_a_proof_on_known_hardware_only() {
    let (before, me) = two_boots();
    assert_eq!(before.proof(&me), Some(Proof::Rebooted));
    let elsewhere = Owner { pid_namespace: plus_one(before.pid_namespace), ..before.clone() };
    assert_eq!(elsewhere.proof(&me), Some(Proof::Rebooted), "the hardware decides, not the namespace");
    let others = [
        Owner { hardware: None, ..before.clone() },
        Owner { hardware: NonZero::new(8), ..before.clone() },
        Owner { machine: Some("there".parse().unwrap()), ..before.clone() },
        Owner { machine: None, ..before.clone() },
        Owner { boot: None, ..before.clone() },
        Owner { boot: me.boot, pid_namespace: plus_one(me.pid_namespace), ..before.clone() },
        before.clone().never_by_reboot(),
    ];
    for other in others {
        assert_eq!(other.proof(&me), None, "{other:?}");
        let mirrored = Owner { machine: other.machine.clone(), hardware: other.hardware, ..me.clone() };
        let alike = other.machine.is_some()
            && other.hardware.is_some()
            && other.boot.is_some()
            && other.boot != me.boot;
        assert!(alike || other.proof(&mirrored).is_none(), "what neither knows is no proof: {other:?}");
    }
    assert_eq!(before.proof(&me.clone().never_by_reboot()), None);
    assert_eq!(before.proof(&Owner { boot: None, ..me }), None);
}

#[test]
fn owners_are_read_as_they_were_written() {
    let (before, me) = two_boots();
    let long = Owner { machine: Some("x".repeat(Name::BYTES_MAX).parse().unwrap()), ..before.clone() };
    for owner in [before, me, Owner::this_process(None), Owner::unknown(), long.clone()] {
        let mut bytes = Vec::new();
        owner.encode(&mut bytes);
        assert!(bytes.len() <= Owner::BYTES_MAX);
        for length in 0..bytes.len() {
            let mut cut = &bytes[..length];
            assert_eq!(Owner::decode(&mut cut), None, "{length}");
            assert_eq!(cut.len(), length, "nothing was taken");
        }
        bytes.push(9);
        let mut rest = &bytes[..];
        assert_eq!(Owner::decode(&mut rest), Some(owner));
        assert_eq!(rest, [9], "what is behind it is left");
    }
    let mut longest = Vec::new();
    long.encode(&mut longest);
    assert_eq!(longest.len(), Owner::BYTES_MAX);
}

#[test]
fn what_no_owner_writes_is_not_read() {
    let mut good = Vec::new();
    me().encode(&mut good);
    assert_eq!(good[0], 4, "the length of the machine's name");
    let process = good.len() - 8 - 4;
    let wrong = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        Owner::decode(&mut &bad[..])
    };
    assert!(wrong(process, &7_u32.to_be_bytes()).is_some());
    assert_eq!(wrong(process, &u32::MAX.to_be_bytes()), None, "-1 would be everybody");
    assert_eq!(wrong(process, &(1_u32 << 31).to_be_bytes()), None);
    assert_eq!(wrong(1, b"\n"), None, "no name");
    assert_eq!(wrong(1, &[0xff]), None, "not UTF-8");
    assert_eq!(wrong(0, &[255]), None, "a length beyond the end");
}

#[test]
fn a_machine_name_that_is_none_makes_an_owner_unknown() {
    for name in ["", "a\nb", &"x".repeat(256)] {
        assert_eq!(Owner::this_process(Some(name)), Owner::unknown());
    }
}

#[test]
fn places_are_told_apart() {
    let (before, me) = two_boots();
    let there = Owner { machine: Some("there".parse().unwrap()), ..me.clone() };
    let inside = Owner { pid_namespace: plus_one(me.pid_namespace), ..me.clone() };
    for other in [&before, &there, &inside] {
        assert_ne!(other.place(), me.place());
    }
    assert_eq!(Owner { process: NonZero::new(1), started: None, ..me.clone() }.place(), me.place());
    let longest = Owner {
        machine: Some("x".repeat(Name::BYTES_MAX).parse().unwrap()),
        pid_namespace: NonZero::new(u64::MAX),
        ..me
    };
    assert!(longest.place().len() <= 310, "{}", longest.place().len());
}

#[test]
fn people_can_read_it() {
    let owner = |machine: &str| Owner {
        process: NonZero::new(123),
        machine: Some(machine.parse().unwrap()),
        ..Owner::unknown()
    };
    assert_eq!(owner("3d1219c7c4c5404aaa1f6d2a48adfda4").to_string(), "process 123 on machine 3d1219c7...");
    assert_eq!(owner("west 4").to_string(), "process 123 on machine west 4");
    assert_eq!(Owner::unknown().to_string(), "an unknown process on a machine without a name");
}

#[test]
fn ids_are_strict() {
    let id = NonZero::new(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef_u128);
    assert_eq!(id128("0123456789abcdef0123456789abcdef"), id);
    assert_eq!(id128("01234567-89ab-cdef-0123-456789abcdef"), id);
    let none = ["", "uninitialized", "0123456789abcdef0123456789abcde", "+123456789abcdef0123456789abcdef"];
    let zero = ["00000000000000000000000000000000", "00000000-0000-0000-0000-000000000000"];
    let odd = ["000000000000000000000000000000000001", "01234567-89ab-cdef-0123-456789abcde-"];
    for text in none.iter().chain(&zero).chain(&odd) {
        assert_eq!(id128(text), None, "{text}");
    }
}
