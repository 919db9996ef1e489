//! [`Disk`]: what a run of the gate takes on a disk, and whether it is there.
//!
//! When a disk fills up in the middle of a run, what fails is whoever writes next, in words of its own: a server panics, a linker is killed by a
//! signal. So we look before.

use std::{
    fmt,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use nix::sys::statvfs::statvfs;

use crate::{task::Task, workspace::Workspace};

/// All that is built, from nothing: 13 GiB, and a little more as the code grows.
const BUILT: Bytes = Bytes::gib(14);

/// What servers and tests write into the temporary folder at a time: between one and two.
const TEMPORARY: Bytes = Bytes::gib(2);

/// With less than this, a run fails for certain: building the changed half of the crates takes more, and so do the servers of the tests.
const LEAST: Bytes = Bytes::gib(2);

/// A size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bytes(u64);

/// A file system that a run writes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// What is written there.
    folders: Vec<PathBuf>,
    free: Bytes,
    /// What a run will add.
    needed: Bytes,
}

/// The disks that a run writes to.
///
/// # Errors
/// If one of them can't be looked at.
pub(crate) fn disks(workspace: &Workspace) -> Result<Vec<Disk>> {
    let target = workspace.metadata()?.target_folder()?;
    let built = BUILT.0.saturating_sub(size(workspace, &target)?.0);
    let mut disks: Vec<(u64, Disk)> = Vec::new();
    for (folder, needed) in [(target, built), (std::env::temp_dir(), TEMPORARY.0)] {
        // What does not exist yet will be where the folder is that it will be made in.
        let found = folder.ancestors().find_map(|above| Some((above, above.metadata().ok()?.dev())));
        let (above, device) = found.with_context(|| format!("there is no {}", folder.display()))?;
        if let Some((_, disk)) = disks.iter_mut().find(|(other, _)| *other == device) {
            disk.folders.push(folder);
            disk.needed.0 += needed;
            continue;
        }
        let disk =
            statvfs(above).with_context(|| format!("could not look at the disk of {}", above.display()))?;
        let free = Bytes(disk.blocks_available() * disk.fragment_size());
        disks.push((device, Disk { folders: vec![folder], free, needed: Bytes(needed) }));
    }
    Ok(disks.into_iter().map(|(_, disk)| disk).collect())
}

impl Disk {
    /// Whether a run can do with what is free: a warning, if it may not; an error, if it surely can't.
    pub(crate) fn verdict(&self) -> Result<Option<String>, String> {
        let Self { folders, free, needed } = self;
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        let words = format!(
            "{free} are free on the disk of {}, and a run may take {needed}. \
             Remove something (`cargo clean` removes all that was ever built), \
             or set CARGO_TARGET_DIR and TMPDIR to folders on another disk.",
            folders.join(" and ")
        );
        if *free < LEAST {
            return Err(format!("error: {words}"));
        }
        Ok((free < needed).then(|| format!("warning: {words}")))
    }
}

impl Bytes {
    const fn gib(number: u64) -> Self {
        Self(number << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In tenths, rounded down.
        let tenths = (self.0 / (1 << 20)) * 10 / (1 << 10);
        write!(f, "{}.{} GiB", tenths / 10, tenths % 10)
    }
}

/// What a folder takes on its disk.
fn size(workspace: &Workspace, folder: &Path) -> Result<Bytes> {
    if !folder.exists() {
        return Ok(Bytes(0));
    }
    // It complains about files that go while it looks, and counts the others.
    let (_, output) =
        Task::program(workspace.root(), "du", &["-sk", "--", &folder.display().to_string()]).capture()?;
    let counted = output.lines().last().and_then(|line| line.split('\t').next()?.parse::<u64>().ok());
    let kib =
        counted.with_context(|| format!("du does not tell how large {} is: {output}", folder.display()))?;
    Ok(Bytes(kib << 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(free: Bytes, needed: Bytes) -> Disk {
        Disk { folders: vec![PathBuf::from("/w/target"), PathBuf::from("/t")], free, needed }
    }

    #[test]
    fn a_disk_with_room_is_not_talked_about() {
        assert_eq!(disk(BUILT, BUILT).verdict(), Ok(None));
        assert_eq!(disk(LEAST, Bytes(0)).verdict(), Ok(None));
    }

    #[test]
    fn too_little_may_do_and_far_too_little_cannot() {
        let warning = disk(Bytes((5 << 30) + (1 << 29)), Bytes::gib(16)).verdict().unwrap().unwrap();
        for words in
            ["warning: 5.5 GiB are free", "/w/target and /t", "16.0 GiB", "CARGO_TARGET_DIR and TMPDIR"]
        {
            assert!(warning.contains(words), "no {words:?} in: {warning}");
        }
        let error = disk(Bytes(LEAST.0 - 1), Bytes(0)).verdict().unwrap_err();
        assert!(error.starts_with("error: 1.9 GiB are free"), "{error}");
    }

    #[test]
    fn this_machines_disks_are_seen() {
        let disks = disks(&Workspace::here()).unwrap();
        let folders: Vec<&PathBuf> = disks.iter().flat_map(|disk| &disk.folders).collect();
        assert_eq!(folders.len(), 2, "{disks:?}");
        assert!(folders.contains(&&std::env::temp_dir()), "{disks:?}");
        assert!(disks.iter().all(|disk| disk.free > Bytes(0)), "{disks:?}");
    }

    #[test]
    fn what_is_built_already_is_not_needed_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(size(&Workspace::here(), &folder.path().join("none")).unwrap(), Bytes(0));
        std::fs::write(folder.path().join("built"), vec![7; 1 << 20]).unwrap();
        let found = size(&Workspace::here(), folder.path()).unwrap();
        assert!((1 << 20..2 << 20).contains(&found.0), "{found:?}");
    }
}
