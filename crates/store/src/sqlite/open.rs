//! Opens a store: checks the directory, updates the schema, and configures connections.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use crate::error::Error;
use crate::sqlite::{filesystem, iterations, private_files, store_error, waits};

/// Numbered from 1; never edited.
pub(super) const MIGRATIONS: [&str; 12] = [
    include_str!("../../migrations/sqlite/0001_log_commands_projections.sql"),
    include_str!("../../migrations/sqlite/0002_access_outbox_kinds.sql"),
    include_str!("../../migrations/sqlite/0003_credentials_keychain.sql"),
    include_str!("../../migrations/sqlite/0004_traces_and_task_runs.sql"),
    include_str!("../../migrations/sqlite/0005_execution_checksum.sql"),
    include_str!("../../migrations/sqlite/0006_retention.sql"),
    include_str!("../../migrations/sqlite/0007_session_holders.sql"),
    include_str!("../../migrations/sqlite/0008_iterations.sql"),
    include_str!("../../migrations/sqlite/0009_loop_tasks_and_keychain.sql"),
    include_str!("../../migrations/sqlite/0010_worker_descriptions.sql"),
    include_str!("../../migrations/sqlite/0011_labels_and_list_indexes.sql"),
    include_str!("../../migrations/sqlite/0012_pending_waits.sql"),
];

/// Earlier schemas have no index of iterations, or only a part of it.
const FIRST_WITH_ITERATIONS: u32 = 9;

/// Earlier schemas do not list what waits for a signal.
const FIRST_WITH_WAITS: u32 = 12;

/// Maximum time that a connection waits for another process's transaction.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(10);

/// Number of prepared statements that are cached.
const CACHED_STATEMENTS_MAX: usize = 64;

/// Prepares the directory. Returns the database file.
pub(super) fn prepare_directory(dir: &Path) -> Result<PathBuf, Error> {
    let owners = dir.join("owners");
    let file = dir.join("noetl.db");
    let prepared = private_files::make_private(dir, &owners, &file);
    prepared.map_err(|error| store_error::io_store_error(&owners, &error))?;
    filesystem::check_file_system(dir)?;
    check_header(&file)?;
    Ok(file)
}

/// The page cache size of a connection: there is one writer, and the operating system caches the file for all.
#[derive(Debug, Clone, Copy)]
pub(super) enum ConnectionRole {
    Writer,
    Reader,
}

impl ConnectionRole {
    fn cache_kib_max(self) -> i64 {
        match self {
            Self::Writer => 8 * 1024,
            Self::Reader => 1024,
        }
    }
}

/// Opens a connection whose commits survive power loss.
pub(super) fn connect(file: &Path, pages: ConnectionRole) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open(file)?;
        db.busy_timeout(BUSY_MAX)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        db.pragma_update(None, "cache_size", -pages.cache_kib_max())?;
        db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS_MAX);
        Ok(db)
    };
    open().map_err(|error| store_error::into_store_error(file, error))
}

/// Opens a connection to a store that cannot be written. It also reads the write-ahead log, if its index can be used.
/// Without a log there is no writer, and the file is read as immutable.
pub(super) fn connect_to_read(file: &Path) -> Result<Connection, Error> {
    let open = |parameter: &str| -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(uri(file, parameter), flags)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        db.pragma_update(None, "cache_size", -ConnectionRole::Reader.cache_kib_max())?;
        db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS_MAX);
        db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        Ok(db)
    };
    let opened = match open("mode=ro") {
        Err(_) if !has_log(file) => open("immutable=1"),
        other => other,
    };
    opened.map_err(|error| store_error::into_store_error(file, error))
}

/// Whether the write-ahead log of a file contains commits.
fn has_log(file: &Path) -> bool {
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    fs::metadata(log).is_ok_and(|metadata| metadata.len() > 0)
}

/// A file as a SQLite URI with a parameter.
fn uri(file: &Path, parameter: &str) -> OsString {
    let mut uri = OsString::from("file:");
    let path = file.as_os_str().to_string_lossy();
    let path = path.replace('%', "%25");
    uri.push(path.replace('?', "%3f").replace('#', "%23"));
    uri.push("?");
    uri.push(parameter);
    uri
}

/// Refuses a schema version other than this binary's, for a store that cannot be written.
pub(super) fn check_schema(db: &Connection, file: &Path) -> Result<(), Error> {
    let latest_version = u32::try_from(MIGRATIONS.len()).expect("the number of migrations fits into u32");
    let version = db.pragma_query_value(None, "user_version", |row| row.get(0));
    let version: u32 = version.map_err(|error| store_error::into_store_error(file, error))?;
    let file = file.to_owned();
    match version.cmp(&latest_version) {
        Ordering::Equal => Ok(()),
        Ordering::Less => Err(Error::ReadOnly { file }),
        Ordering::Greater => Err(Error::SchemaTooNew {
            file,
            version,
            supported: latest_version,
        }),
    }
}

/// Updates the schema, one process at a time; refuses one that is newer than this binary.
pub(super) fn migrate(db: &mut Connection, file: &Path) -> Result<(), Error> {
    let latest_version = u32::try_from(MIGRATIONS.len()).expect("the number of migrations fits into u32");
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get(0));
    let name = |error| store_error::into_store_error(file, error);
    let mut schema_version: u32 = version(db).map_err(name)?;
    if schema_version < latest_version {
        let transaction = db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(name)?;
        schema_version = version(&transaction).map_err(name)?;
        for (done, sql) in (1_u32..).zip(MIGRATIONS).skip(schema_version as usize) {
            transaction.execute_batch(sql).map_err(name)?;
            transaction.pragma_update(None, "user_version", done).map_err(name)?;
        }
        if (1..FIRST_WITH_ITERATIONS).contains(&schema_version) {
            iterations::index_old_logs(&transaction).map_err(name)?;
        }
        if (1..FIRST_WITH_WAITS).contains(&schema_version) {
            waits::list_old_waits(&transaction).map_err(name)?;
        }
        transaction
            .execute(RECORD_SCHEMA, [latest_version.to_string()])
            .map_err(name)?;
        transaction.commit().map_err(name)?;
    }
    if schema_version > latest_version {
        check_recorded(db, file, schema_version)?;
        return Err(Error::SchemaTooNew {
            file: file.to_owned(),
            version: schema_version,
            supported: latest_version,
        });
    }
    Ok(())
}

/// Records the schema version a second time, outside the header.
const RECORD_SCHEMA: &str = "INSERT OR REPLACE INTO setting (key, value) VALUES ('schema_version', ?1)";

/// A version in the header that the migrations did not record means a damaged header, not a newer binary.
fn check_recorded(db: &Connection, file: &Path, version: u32) -> Result<(), Error> {
    let sql = "SELECT value FROM setting WHERE key = 'schema_version'";
    let recorded = db.query_row(sql, [], |row| row.get::<_, String>(0));
    let recorded = recorded
        .optional()
        .map_err(|error| store_error::into_store_error(file, error))?;
    match recorded {
        Some(recorded) if recorded != version.to_string() => Err(Error::Corrupt {
            file: file.to_owned(),
            source: format!("the header has schema version {version}, but the settings have {recorded}").into(),
        }),
        _ => Ok(()),
    }
}

/// Refuses a damaged header: SQLite would treat a truncated header as an empty database and overwrite the file.
fn check_header(file: &Path) -> Result<(), Error> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut header = Vec::new();
    match fs::File::open(file) {
        Ok(opened) => opened
            .take(MAGIC.len() as u64)
            .read_to_end(&mut header)
            .map_err(|error| store_error::io_store_error(file, &error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(store_error::io_store_error(file, &error)),
    };
    if header.is_empty() || header == MAGIC {
        return Ok(());
    }
    Err(Error::Corrupt {
        file: file.to_owned(),
        source: "the header is not that of a SQLite database".into(),
    })
}
