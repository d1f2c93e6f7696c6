//! A store's directory and files are its owner's alone: they hold the inputs and results of runs.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::sqlite::reserve;

/// What a group and everybody else may do with a file.
const OTHERS: u32 = 0o077;
/// In a directory with this bit everybody has files of their own, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// Makes the directory and the database file, or takes the rights of others from those that are there. The database
/// gives the files beside it the rights of its own.
pub(super) fn prepare(dir: &Path, owners: &Path, database: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(owners)?;
    if fs::metadata(dir)?.permissions().mode() & STICKY == 0 {
        close(dir);
    }
    close(owners);
    for entry in fs::read_dir(owners)?.flatten() {
        close(&entry.path());
    }
    if !database.try_exists()? {
        open_new(database)?;
    }
    for end in ["", "-wal", "-shm"] {
        let mut file = database.as_os_str().to_owned();
        file.push(end);
        close(Path::new(&file));
    }
    close(&database.with_file_name(reserve::FILE_NAME));
    Ok(())
}

/// Opens a file, and makes one that only its owner may read if there is none.
pub(super) fn open_new(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    options.mode(0o600).open(file)
}

/// Makes a file that only its owner may read.
pub(super) fn create_new(file: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(file)
}

/// Takes the rights of others from a file or directory, if it is there and is this user's.
fn close(path: &Path) {
    let Ok(metadata) = fs::metadata(path) else {
        return;
    };
    let mode = metadata.permissions().mode();
    if mode & OTHERS == 0 {
        return;
    }
    if let Err(error) = fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
        // It is another user's, who decides about it.
        tracing::warn!(%error, path = %path.display(), "failed to make store private");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sqlite;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_store_is_its_owners_alone_also_one_that_was_open_to_others() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("store");
        let check = || {
            let store = Sqlite::open(&dir).unwrap();
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
