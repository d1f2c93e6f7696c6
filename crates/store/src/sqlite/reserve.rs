//! The reserve: disk space that only control requests may use.
//!
//! A file next to the database reserves the space. While the disk is full, a write for a cancel or a pause takes space
//! from it, a little at a time. Every other write first refills the file, and is refused if that is not possible, so
//! that other writes do not use the space. All processes of a store share the file; its lock prevents one process from
//! refilling it while another one takes space from it.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::sqlite::private_files;

/// The name of the file, next to the database.
pub(super) const FILE_NAME: &str = "noetl.reserve";

/// Size of the reserve: enough for hundreds of cancelled executions, but small on any disk.
pub(super) const RESERVE_BYTES: u64 = 1024 * 1024;

/// Amount released at a time: about the size of one commit. Other programs may use released space that is not needed.
const RELEASE_BYTES: u64 = 128 * 1024;

/// The reserved space of a store.
pub(super) struct Reserve {
    /// `None` if the file cannot be created, for example on a read-only disk.
    file: Option<File>,
}

/// The right to take space from the reserve; no process refills it in the meantime.
pub(super) struct LockedReserve<'a>(&'a File);

impl Reserve {
    /// Opens the reserve next to a database file and fills it, if there is space.
    pub(super) fn open(database: &Path) -> Self {
        let path = database.with_file_name(FILE_NAME);
        let reserve = Self {
            file: private_files::open_new(&path).ok(),
        };
        if let Some(file) = &reserve.file
            && let Ok(()) = file.try_lock()
        {
            // In a copy of a store, the file may be sparse. The first write reports a full disk.
            let _ = fill_file(file);
            let _ = file.unlock();
        }
        reserve
    }

    /// Tries to refill the reserve. Returns whether all of the space is reserved.
    pub(super) fn refill(&self) -> bool {
        let Some(file) = &self.file else {
            return true;
        };
        if is_full_file(file) {
            return true;
        }
        if file.try_lock().is_err() {
            // Another process is taking space from it.
            return false;
        }
        let filled = fill_file(file);
        let _ = file.unlock();
        filled.is_ok()
    }

    /// Whether all of the space is reserved.
    pub(super) fn is_full(&self) -> bool {
        self.file.as_ref().is_none_or(is_full_file)
    }

    /// Locks the reserve; `None` if there is no reserve.
    pub(super) fn lock(&self) -> Option<LockedReserve<'_>> {
        let file = self.file.as_ref()?;
        file.lock().ok()?;
        Some(LockedReserve(file))
    }
}

impl LockedReserve<'_> {
    /// Releases some of the space to the disk. Returns false if none is left.
    pub(super) fn release(&self) -> bool {
        let Ok(bytes) = self.0.metadata().map(|metadata| metadata.len()) else {
            return false;
        };
        let remaining = bytes.saturating_sub(RELEASE_BYTES);
        bytes > 0 && self.0.set_len(remaining).is_ok()
    }
}

impl Drop for LockedReserve<'_> {
    fn drop(&mut self) {
        // The lock also ends with the process.
        let _ = self.0.unlock();
    }
}

fn is_full_file(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.len() == RESERVE_BYTES)
}

/// Reserves all of the space, or leaves the file as it was.
fn fill_file(file: &File) -> io::Result<()> {
    let before = file.metadata()?.len();
    let filled = match fallocate(file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_noise(file, before),
        allocated => allocated.map_err(io::Error::from),
    };
    if filled.is_ok() {
        return file.set_len(RESERVE_BYTES);
    }
    // Releases what was allocated before the disk was full.
    file.set_len(before.min(RESERVE_BYTES))?;
    filled
}

/// Reserves space on file systems without `fallocate`, with bytes that do not compress.
fn write_noise(mut file: &File, from: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(from))?;
    let mut noise = 0x9E37_79B9_7F4A_7C15_u64;
    let mut chunk = Vec::with_capacity(4096);
    let mut written = from;
    while written < RESERVE_BYTES {
        chunk.clear();
        while chunk.len() < 4096 {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            chunk.extend(noise.to_le_bytes());
        }
        file.write_all(&chunk)?;
        written += chunk.len() as u64;
    }
    file.sync_data()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_is_released_in_parts_until_nothing_is_left_and_is_refilled() {
        let temp_dir = tempfile::tempdir().unwrap();
        let reserve = Reserve::open(&temp_dir.path().join("noetl.db"));
        assert!(reserve.is_full());
        let locked = reserve.lock().unwrap();
        let mut released = 0;
        while locked.release() {
            released += RELEASE_BYTES;
        }
        drop(locked);
        assert_eq!(released, RESERVE_BYTES);
        assert!(!reserve.is_full());
        assert!(reserve.refill() && reserve.is_full());
    }

    #[test]
    fn a_reserve_is_not_refilled_while_another_process_takes_from_it() {
        let temp_dir = tempfile::tempdir().unwrap();
        let database = temp_dir.path().join("noetl.db");
        let (reserve, other) = (Reserve::open(&database), Reserve::open(&database));
        let locked = reserve.lock().unwrap();
        assert!(locked.release());
        assert!(!other.refill());
        drop(locked);
        assert!(other.refill() && reserve.is_full());
    }

    #[test]
    fn a_reserve_takes_space_on_the_disk_also_where_it_was_a_hole_or_is_written() {
        use std::os::unix::fs::MetadataExt as _;
        let temp_dir = tempfile::tempdir().unwrap();
        let path = temp_dir.path().join(FILE_NAME);
        let bytes_on_disk = || std::fs::metadata(&path).unwrap().blocks() * 512;
        File::create(&path).unwrap().set_len(RESERVE_BYTES).unwrap();
        assert!(bytes_on_disk() < RESERVE_BYTES);
        let reserve = Reserve::open(&temp_dir.path().join("noetl.db"));
        assert!(reserve.is_full() && bytes_on_disk() >= RESERVE_BYTES);
        let file = reserve.file.as_ref().unwrap();
        file.set_len(0).unwrap();
        write_noise(file, 0).unwrap();
        assert!(reserve.is_full() && bytes_on_disk() >= RESERVE_BYTES);
    }
}
