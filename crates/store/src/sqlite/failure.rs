//! What the database's errors mean to a caller.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::Error;

/// The file a connection works on, to name it in errors.
pub(super) fn name(file: &Path, error: rusqlite::Error) -> Error {
    let file = file.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Corrupt {
            file,
            source: error.into(),
        },
        Some(ErrorCode::DiskFull) => Error::Full { file },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { file },
        _ => Error::Unavailable(error.into()),
    }
}

/// The same for errors of the file system itself.
pub(super) fn name_io(file: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { file },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { file },
        _ => Error::Unavailable(format!("`{}`: {error}", file.display()).into()),
    }
}
