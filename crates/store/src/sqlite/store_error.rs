//! Converts errors of SQLite to errors of the store.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::error::Error;
use crate::sqlite::filesystem;

/// Converts an error and adds the file that the connection uses.
pub(super) fn into_store_error(file: &Path, error: rusqlite::Error) -> Error {
    let file = file.to_owned();
    if is_damage(&error) {
        let source = error.into();
        return Error::Corrupt { file, source };
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => Error::Full { file },
        Some(ErrorCode::SystemIoFailure) if is_out_of_space(&file, &error) => Error::Full { file },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => Error::ReadOnly { file },
        Some(ErrorCode::CannotOpen) if !filesystem::is_writable(&file) => Error::ReadOnly { file },
        _ => Error::Unavailable(error.into()),
    }
}

/// Whether an error means that the file was modified or damaged: a broken page, a value that no version of this
/// program writes, or a schema without the tables and columns that the statements use.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as Sqlite;
    use rusqlite::ffi::{SQLITE_ERROR, SQLITE_IOERR_SHORT_READ};
    let (failure, text) = match error {
        Sqlite::FromSqlConversionFailure(..)
        | Sqlite::IntegralValueOutOfRange(..)
        | Sqlite::InvalidColumnType(..)
        | Sqlite::Utf8Error(..) => return true,
        Sqlite::SqliteFailure(failure, text) => (failure, text.as_deref().unwrap_or_default()),
        Sqlite::SqlInputError { error, msg, .. } => (error, msg.as_str()),
        _ => return false,
    };
    match failure.code {
        ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::TypeMismatch
        | ErrorCode::TooBig
        | ErrorCode::ConstraintViolation => true,
        _ if failure.extended_code == SQLITE_IOERR_SHORT_READ => true,
        _ if failure.extended_code == SQLITE_ERROR => SCHEMA_DAMAGE.iter().any(|sign| text.contains(sign)),
        _ => false,
    }
}

/// Error texts of SQLite for a schema that differs from the migrations.
const SCHEMA_DAMAGE: [&str; 6] = [
    "no such",
    "has no column",
    "already exists",
    "duplicate column",
    "malformed",
    "unsupported file format",
];

/// Whether an I/O error means a full disk: SQLite reports an exceeded quota, or a WAL index that cannot grow, as a
/// general write error.
fn is_out_of_space(file: &Path, error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        return false;
    };
    match failure.extended_code {
        SQLITE_IOERR_SHMSIZE => true,
        SQLITE_IOERR_WRITE => filesystem::free_bytes(file) == Some(0),
        _ => false,
    }
}

/// The same for errors of the file system.
pub(super) fn io_store_error(file: &Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let file = file.to_owned();
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { file },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { file },
        _ => Error::Unavailable(format!("`{}`: {error}", file.display()).into()),
    }
}
