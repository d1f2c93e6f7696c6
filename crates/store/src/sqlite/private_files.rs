//! Restricts a store's directory and files to their owner, because they contain inputs and results of runs.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::sqlite::reserve;

/// Permission bits of the group and of others.
const OTHERS_MODE: u32 = 0o077;
/// Directories with this bit, such as `/tmp`, are shared between users.
const STICKY_BIT: u32 = 0o1000;

/// Creates the directory and the database file, or removes the permissions of others from existing ones. SQLite
/// creates its other files with the permissions of the database file.
pub(super) fn make_private(dir: &Path, owners: &Path, database: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(owners)?;
    if fs::metadata(dir)?.permissions().mode() & STICKY_BIT == 0 {
        remove_others_access(dir);
    }
    remove_others_access(owners);
    for entry in fs::read_dir(owners)?.flatten() {
        remove_others_access(&entry.path());
    }
    if !database.try_exists()? {
        open_new(database)?;
    }
    for end in ["", "-wal", "-shm"] {
        let mut file = database.as_os_str().to_owned();
        file.push(end);
        remove_others_access(Path::new(&file));
    }
    remove_others_access(&database.with_file_name(reserve::FILE_NAME));
    Ok(())
}

/// Opens a file, or creates one that only its owner can access.
pub(super) fn open_new(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(0o600).open(file)
}

/// Creates a file that only its owner can access.
pub(super) fn create_new(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(file)
}

/// Removes the permissions of others from a file or directory, if it exists and belongs to this user.
fn remove_others_access(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode();
    if mode & OTHERS_MODE == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_MODE)) {
        // It belongs to another user, who is responsible for it.
        tracing::warn!(%error, path = %path.display(), "failed to make store private");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn only_the_owner_can_read_a_store_even_if_others_could_before() {
        let temp_dir = tempfile::tempdir().unwrap();
        let dir = temp_dir.path().join("store");
        let check = || {
            let store = SqliteStore::open(&dir).unwrap();
            assert_eq!((mode(&dir), mode(&dir.join("owners"))), (0o700, 0o700));
            for folder in [&dir, &dir.join("owners")] {
                for entry in fs::read_dir(folder).unwrap().flatten() {
                    let path = entry.path();
                    let expected = if path.is_dir() { 0o700 } else { 0o600 };
                    assert_eq!(mode(&path), expected, "{}", path.display());
                }
            }
            assert!(dir.join("noetl.db-wal").is_file());
            drop(store);
        };
        check();
        for (name, mode) in [("", 0o755), ("owners", 0o755), ("noetl.db", 0o644)] {
            fs::set_permissions(dir.join(name), Permissions::from_mode(mode)).unwrap();
        }
        check();
    }
}
