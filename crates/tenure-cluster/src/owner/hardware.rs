//! Which hardware this is, as far as it takes to tell a reboot from a copy of the machine.

use std::{num::NonZero, path::Path};

use super::{id128, read};

/// The inode of the first pid namespace of every Linux kernel (`PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What is there in a container and not outside: of Docker, Podman, and those that systemd knows.
const CONTAINER_MARKS: [&str; 3] = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];

/// Where the firmware's id of this machine can be read, as a rule by root only.
const PRODUCT_UUID: &str = "/sys/class/dmi/id/product_uuid";

/// What boards say whose vendor never gave them an id. (Zero is none anyway.)
const UNSET: [u128; 5] = [
    u128::MAX,
    0x0300_0200_0400_0500_0006_0007_0008_0009,
    0x0002_0003_0004_0005_0006_0007_0008_0009,
    0x1234_5678_1234_5678_90ab_cdde_efaa_bbcc,
    0xfefe_fefe_fefe_fefe_fefe_fefe_fefe_fefe,
];

/// The firmware's id of this machine, if it is one, and we are not in a container, as far as one can see.
pub(super) fn read_for(pid_namespace: Option<NonZero<u64>>) -> Option<NonZero<u128>> {
    usable(pid_namespace, in_container(), read(PRODUCT_UUID).as_deref())
}

fn usable(pid_namespace: Option<NonZero<u64>>, container: bool, uuid: Option<&str>) -> Option<NonZero<u128>> {
    if container || pid_namespace.map(NonZero::get) != Some(FIRST_PID_NAMESPACE) {
        return None;
    }
    id128(uuid?).filter(|id| !UNSET.contains(&id.get()))
}

/// Whether there is a mark of a container, or none can be looked for.
fn in_container() -> bool {
    CONTAINER_MARKS.iter().any(|mark| !matches!(Path::new(mark).try_exists(), Ok(false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_is_known_outside_of_containers_only_and_by_a_real_id() {
        let first = NonZero::new(FIRST_PID_NAMESPACE);
        let uuid = Some("4c4c4544-0042-3510-8054-b4c04f4d3232");
        assert!(usable(first, false, uuid).is_some());
        assert!(usable(first, true, uuid).is_none(), "a container");
        assert!(usable(NonZero::new(FIRST_PID_NAMESPACE + 1), false, uuid).is_none(), "another namespace");
        assert!(usable(None, false, uuid).is_none());
        assert!(usable(first, false, None).is_none(), "not readable");
        for unset in [
            "",
            "Not Settable",
            "00000000-0000-0000-0000-000000000000",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
        ] {
            assert!(usable(first, false, Some(unset)).is_none(), "{unset}");
        }
    }
}
