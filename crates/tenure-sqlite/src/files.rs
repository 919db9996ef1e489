//! The files of a store: made for their owner only, and not on a network.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use nix::sys::statfs::statfs;
use parking_lot::MutexGuard;
use tenure_store::{Reason, StoreError};

/// Readable and writable by the owner, and by nobody else.
const OWNER_ONLY: u32 = 0o600;

/// File systems on which locks or shared memory do not reach every process that sees the file, by the number that `statfs` gives.
const NETWORK_FILE_SYSTEMS: &[(i64, &str)] = &[
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00C3_6400, "Ceph"),
    (0x0BD0_0BD0, "Lustre"),
    (0x0116_1970, "GFS2"),
    (0x7461_636F, "OCFS2"),
    (0x5346_414F, "AFS"),
    (0x7375_7245, "Coda"),
    (0x6573_5546, "FUSE"),
];

/// Makes the database file if it is not there yet, and returns its path without links: whoever opens it by another name must meet the
/// others at the same turn file.
///
/// It must not be opened by anybody but SQLite once it is in use: closing it would drop the locks that SQLite holds on it in this
/// process. So this only ever creates, and `opening` shows that no other thread of ours is about to use what it creates.
pub(crate) fn create(path: &Path, _opening: &MutexGuard<'_, ()>) -> Result<PathBuf, StoreError> {
    match OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(cannot_open(path, error)),
    }
    path.canonicalize().map_err(|error| cannot_open(path, error))
}

/// Opens the file beside the database that turns are taken in.
pub(crate) fn open_turn_file(database: &Path) -> Result<(PathBuf, File), StoreError> {
    let mut path = database.as_os_str().to_owned();
    path.push("-turn");
    let path = PathBuf::from(path);
    let opened =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(OWNER_ONLY).open(&path);
    match opened {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(cannot_open(&path, error)),
    }
}

fn cannot_open(path: &Path, error: io::Error) -> StoreError {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "create the directory first",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a directory that this user may write to"
        }
        io::ErrorKind::IsADirectory => "name a file in it",
        io::ErrorKind::StorageFull => {
            return StoreError::Full(Reason::caused(format!("create {}: {error}", path.display()), error));
        }
        _ => "check the path",
    };
    StoreError::invalid(Reason::caused(
        format!("can't create or open {}: {error}: {advice}", path.display()),
        error,
    ))
}

/// The kind of network file system that `path` is on, if it is on one.
pub(crate) fn network_file_system(path: &Path) -> Option<&'static str> {
    named(statfs(path).ok()?.filesystem_type().0)
}

fn named(kind: i64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// What tells this machine from others, where the system has it.
pub(crate) fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?.trim().to_owned();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_and_local_ones_are_not() {
        assert_eq!(named(0x6969), Some("NFS"));
        assert_eq!(named(0xEF53), None, "ext4");
        assert_eq!(network_file_system(Path::new("/proc")), None);
    }
}
