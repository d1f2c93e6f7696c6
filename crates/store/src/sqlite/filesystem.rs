//! Checks the file system of a store: locks and shared memory must work between processes.

use std::path::Path;

use crate::error::Error;
use crate::sqlite::store_error;

/// Network file systems, by the magic number that the kernel reports.
const NETWORK_FILE_SYSTEMS: [(u64, &str); 12] = [
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "ceph"),
    (0x0BD0_0BD0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x7375_7245, "coda"),
    (0x5346_414F, "afs"),
    (0x0116_1970, "gfs2"),
];

/// Refuses a directory on a network file system.
pub(super) fn check_file_system(dir: &Path) -> Result<(), Error> {
    let stat = rustix::fs::statfs(dir).map_err(|errno| store_error::io_store_error(dir, &errno.into()))?;
    #[expect(
        clippy::cast_sign_loss,
        reason = "the kernel's field is a bit pattern whose width differs between platforms"
    )]
    let magic = (stat.f_type as u64) & 0xFFFF_FFFF;
    match network_name(magic) {
        Some(name) => Err(Error::NetworkFileSystem {
            dir: dir.to_owned(),
            name,
        }),
        None => Ok(()),
    }
}

/// Whether files can be created in the directory of a file.
pub(super) fn is_writable(file: &Path) -> bool {
    let dir = file.parent().unwrap_or(file);
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Number of bytes that can still be written in the directory of a file, if the file system reports it.
pub(super) fn free_bytes(file: &Path) -> Option<u64> {
    let stats = rustix::fs::statvfs(file.parent()?).ok()?;
    Some(stats.f_bavail.saturating_mul(stats.f_frsize))
}

fn network_name(magic: u64) -> Option<&'static str> {
    NETWORK_FILE_SYSTEMS
        .iter()
        .find(|(number, _)| *number == magic)
        .map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_name_and_local_ones_pass() {
        assert_eq!(network_name(0x6969), Some("nfs"));
        assert_eq!(network_name(0xFF53_4D42), Some("cifs"));
        assert_eq!(network_name(0xEF53), None);
    }
}
