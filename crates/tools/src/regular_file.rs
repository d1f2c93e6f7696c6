//! Reads regular files that a task names, up to a size limit, whatever size their metadata reports.
//!
//! A device, a pipe or a file in `/proc` reports size 0 and may be endless.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FileReadError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("not a regular file")]
    NotRegular,
    #[error("larger than {0} bytes")]
    TooLarge(u64),
}

/// Reads a regular file of at most `bytes_max` bytes.
pub(crate) async fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileReadError> {
    let path = path.to_owned();
    let result = tokio::task::spawn_blocking(move || read_blocking(&path, bytes_max)).await;
    result.unwrap_or_else(|error| Err(io::Error::other(error).into()))
}

/// Opens a regular file for streaming.
pub async fn open_regular(path: &Path) -> Result<tokio::fs::File, FileReadError> {
    let path = path.to_owned();
    let file = tokio::task::spawn_blocking(move || open_blocking(&path)).await;
    let file = file.unwrap_or_else(|error| Err(io::Error::other(error).into()))?;
    Ok(tokio::fs::File::from_std(file))
}

fn open_blocking(path: &Path) -> Result<File, FileReadError> {
    // Opening a pipe without a writer would block the thread.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(FileReadError::NotRegular);
    }
    Ok(file)
}

fn read_blocking(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileReadError> {
    let file = open_blocking(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(FileReadError::TooLarge(bytes_max));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "12345").unwrap();
        assert_eq!(read_regular(&file, 5).await.unwrap(), b"12345");
        let error = read_regular(&file, 4).await.unwrap_err();
        assert!(matches!(error, FileReadError::TooLarge(4)), "{error:?}");
        let pipe = dir.path().join("pipe");
        let status = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(status.unwrap().success());
        for path in [pipe.as_path(), Path::new("/dev/zero"), dir.path()] {
            let error = read_regular(path, 5).await.unwrap_err();
            assert!(matches!(error, FileReadError::NotRegular), "{error:?}");
        }
    }

    #[tokio::test]
    async fn a_file_that_reports_size_zero_is_still_limited() {
        let maps = Path::new("/proc/self/maps");
        assert_eq!(std::fs::metadata(maps).unwrap().len(), 0);
        let error = read_regular(maps, 10).await.unwrap_err();
        assert!(matches!(error, FileReadError::TooLarge(10)), "{error:?}");
    }
}
