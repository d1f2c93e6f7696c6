//! Reads regular files that a task names, up to a size limit, whatever size their metadata reports.
//!
//! A device, a pipe or a file in `/proc` reports size 0 and may be endless.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("not a regular file")]
    NotRegular,
    #[error("larger than {0} bytes")]
    TooLarge(u64),
}

/// Reads a regular file of at most `bytes_max` bytes.
pub(crate) async fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Unreadable> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_now(&path, bytes_max)).await;
    read.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// Opens a regular file for streaming.
pub(crate) async fn open(path: &Path) -> Result<tokio::fs::File, Unreadable> {
    let path = path.to_owned();
    let opened = tokio::task::spawn_blocking(move || open_now(&path)).await;
    let opened = opened.unwrap_or_else(|error| Err(io::Error::other(error).into()))?;
    Ok(tokio::fs::File::from_std(opened))
}

fn open_now(path: &Path) -> Result<File, Unreadable> {
    // Opening a pipe without a writer would block the thread.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(Unreadable::NotRegular);
    }
    Ok(file)
}

fn read_now(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Unreadable> {
    let file = open_now(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Unreadable::TooLarge(bytes_max));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_regular_files_within_the_bound_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read(&file, 5).await.unwrap(), b"12345");
        let error = read(&file, 4).await.unwrap_err();
        assert!(matches!(error, Unreadable::TooLarge(4)), "{error:?}");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            let error = read(path, 5).await.unwrap_err();
            assert!(matches!(error, Unreadable::NotRegular), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_says_it_is_empty_is_still_bounded() {
        let maps = Path::new("/proc/self/maps");
        assert_eq!(std::fs::metadata(maps).unwrap().len(), 0);
        let error = read(maps, 10).await.unwrap_err();
        assert!(matches!(error, Unreadable::TooLarge(10)), "{error:?}");
    }
}
