//! Temporary files for data that does not fit into memory.
//!
//! The directory is created with the first file: a worker of a remote server starts without one, and an operator may
//! delete it at any time.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;

/// An unnamed file; it is deleted when the handle is closed.
pub(crate) fn create_unnamed_file(dir: &Path) -> io::Result<File> {
    results::make_private_dir(dir)?;
    tempfile::tempfile_in(dir)
}

/// A named file with this prefix.
pub fn create_named_file(dir: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    results::make_private_dir(dir)?;
    tempfile::Builder::new().prefix(prefix).tempfile_in(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_directory_is_created_on_demand() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join(".noetl");
        for _ in 0..2 {
            assert!(create_unnamed_file(&dir).is_ok());
            fs::remove_dir_all(&dir).unwrap();
            assert!(create_named_file(&dir, "transfer-").is_ok());
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}
