//! Opening a store: the directory is checked, the schema brought up to date, connections set up alike.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use crate::error::Error;
use crate::sqlite::{failure, filesystem, private};

/// Numbered from 1; never edited.
pub(super) const MIGRATIONS: [&str; 3] = [
    include_str!("../../migrations/sqlite/0001_log_commands_projections.sql"),
    include_str!("../../migrations/sqlite/0002_access_outbox_kinds.sql"),
    include_str!("../../migrations/sqlite/0003_credentials_keychain.sql"),
];

/// How long a connection waits for another process's transaction.
pub(super) const BUSY_MAX: Duration = Duration::from_secs(10);

/// Hot statements stay prepared.
const STATEMENTS_KEPT: usize = 64;

/// Prepares the directory; answers the database file.
pub(super) fn prepare(dir: &Path) -> Result<PathBuf, Error> {
    let owners = dir.join("owners");
    let file = dir.join("noetl.db");
    let prepared = private::prepare(dir, &owners, &file);
    prepared.map_err(|error| failure::name_io(&owners, &error))?;
    filesystem::check(dir)?;
    check_header(&file)?;
    Ok(file)
}

/// Whose pages a connection keeps in memory: there is one writer, and the system keeps the file's pages for all.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pages {
    OfTheWriter,
    OfAReader,
}

impl Pages {
    fn kib_max(self) -> i64 {
        match self {
            Self::OfTheWriter => 8 * 1024,
            Self::OfAReader => 1024,
        }
    }
}

/// Opens a connection whose commits survive power loss.
pub(super) fn connect(file: &Path, pages: Pages) -> Result<Connection, Error> {
    let open = || -> rusqlite::Result<Connection> {
        let db = Connection::open(file)?;
        db.busy_timeout(BUSY_MAX)?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        db.pragma_update(None, "synchronous", "FULL")?;
        db.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        db.pragma_update(None, "temp_store", "MEMORY")?;
        db.pragma_update(None, "cache_size", -pages.kib_max())?;
        db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        Ok(db)
    };
    open().map_err(|error| failure::name(file, error))
}

/// Brings the schema up to date, one process at a time; refuses a schema this binary does not know.
pub(super) fn migrate(db: &mut Connection, file: &Path) -> Result<(), Error> {
    let known = u32::try_from(MIGRATIONS.len()).expect("migrations are few");
    let version = |db: &Connection| db.pragma_query_value(None, "user_version", |row| row.get(0));
    let name = |error| failure::name(file, error);
    let mut found: u32 = version(db).map_err(name)?;
    if found < known {
        let transaction = db
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(name)?;
        found = version(&transaction).map_err(name)?;
        for (done, sql) in (1_u32..).zip(MIGRATIONS).skip(found as usize) {
            transaction.execute_batch(sql).map_err(name)?;
            transaction
                .pragma_update(None, "user_version", done)
                .map_err(name)?;
        }
        transaction.commit().map_err(name)?;
    }
    if found > known {
        return Err(Error::SchemaTooNew {
            file: file.to_owned(),
            found,
            known,
        });
    }
    Ok(())
}

/// The database would take a truncated header for an empty database and write over what is left.
fn check_header(file: &Path) -> Result<(), Error> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let mut header = Vec::new();
    match fs::File::open(file) {
        Ok(opened) => opened
            .take(MAGIC.len() as u64)
            .read_to_end(&mut header)
            .map_err(|error| failure::name_io(file, &error))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failure::name_io(file, &error)),
    };
    if header.is_empty() || header == MAGIC {
        return Ok(());
    }
    Err(Error::Corrupt {
        file: file.to_owned(),
        source: "its header is not that of a database".into(),
    })
}
