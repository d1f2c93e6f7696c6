//! Directories that only their owner may read, because bodies and task output are user data.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

/// Permissions of the group and of others.
const OTHERS_MODE: u32 = 0o077;
/// In a directory with this bit, such as `/tmp`, all users have their own files.
const STICKY_BIT: u32 = 0o1000;

/// Creates a directory that only its owner may read, with missing parents. If others may read an existing directory,
/// removes their permissions from it and everything in it.
pub fn make_private_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let mode = fs::metadata(dir)?.permissions().mode();
    if mode & OTHERS_MODE != 0
        && mode & STICKY_BIT == 0
        && let Err(error) = revoke_access(dir, mode)
    {
        // The directory belongs to another user.
        tracing::warn!(%error, dir = %dir.display(), "failed to make directory private");
    }
    Ok(())
}

/// Removes the permissions of others from a directory and everything in it. The directory itself comes last, so that an
/// interrupted pass is repeated.
fn revoke_access(dir: &Path, mode: u32) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(metadata) = entry.metadata() else {
            // Another process has deleted it.
            continue;
        };
        let mode = metadata.permissions().mode();
        if metadata.is_dir() {
            revoke_access(&entry.path(), mode)?;
        } else if metadata.is_file() && mode & OTHERS_MODE != 0 {
            restrict_path(&entry.path(), mode)?;
        }
    }
    restrict_path(dir, mode)
}

fn restrict_path(path: &Path, mode: u32) -> io::Result<()> {
    match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_MODE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_directory_is_made_private_and_one_that_was_open_is_closed() {
        let temp_dir = tempfile::tempdir().unwrap();
        let dir = temp_dir.path().join("a/b");
        make_private_dir(&dir).unwrap();
        assert_eq!((mode(&dir), mode(&temp_dir.path().join("a"))), (0o700, 0o700));
        fs::create_dir(dir.join("c")).unwrap();
        for name in ["one", "c/two"] {
            fs::write(dir.join(name), "x").unwrap();
            fs::set_permissions(dir.join(name), Permissions::from_mode(0o664)).unwrap();
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&dir).unwrap();
        let modes = ["", "one", "c", "c/two"].map(|name| mode(&dir.join(name)));
        assert_eq!(modes, [0o700, 0o600, 0o700, 0o600]);
        fs::set_permissions(&dir, Permissions::from_mode(0o1777)).unwrap();
        make_private_dir(&dir).unwrap();
        assert_eq!(mode(&dir), 0o1777);
    }
}
