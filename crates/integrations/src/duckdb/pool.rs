//! Open databases: one per file and process, shared by the tasks that use it, closed with the last of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use model::outcome::TaskError;
use tools::{exhausted_error, find_shortage_in, find_shortage_of};

use super::failure::DuckdbError;
use super::ffi::{DuckdbConnection, DuckdbDatabase, DuckdbLibrary};
use super::guard::StoreGuard;
use super::library::LibraryLoader;
use super::task_error;

/// A database is opened only while at least this many file descriptors are free: it needs two, and other threads open
/// files at the same time.
const FREE_DESCRIPTORS_MIN: usize = 16;

/// The open databases of this process.
#[derive(Clone)]
pub(crate) struct DatabasePool {
    libraries: LibraryLoader,
    guard: StoreGuard,
    files: Arc<Mutex<HashMap<PathBuf, Arc<DatabaseSlot>>>>,
}

/// One file.
#[derive(Default)]
struct DatabaseSlot {
    open: Mutex<OpenDatabase>,
    /// Locked by a call with credentials, because every connection to the file sees them.
    pub(super) secrets_lock: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct OpenDatabase {
    database: Option<Arc<DuckdbDatabase>>,
    users: usize,
}

/// The use of a database; dropping the last one closes it.
pub(crate) struct DatabaseHandle {
    // Closed before the slot is looked at, so that closing finds no connection. Others hold it weakly.
    connection: Option<Arc<DuckdbConnection>>,
    slot: Option<Arc<DatabaseSlot>>,
}

impl DatabasePool {
    pub(crate) fn new(libraries: LibraryLoader, guard: StoreGuard) -> Self {
        Self {
            libraries,
            guard,
            files: Arc::default(),
        }
    }

    pub(crate) fn guard(&self) -> &StoreGuard {
        &self.guard
    }

    /// A connection to a file, or to a database in memory of the caller's own. It blocks.
    pub(crate) fn connect(&self, file: Option<&Path>) -> Result<DatabaseHandle, TaskError> {
        let engine = self.libraries.library()?;
        let settings = self.settings();
        let Some(file) = file else {
            let connection = open_database(engine, None, &settings)?.connect();
            return Ok(DatabaseHandle {
                connection: Some(Arc::new(connection.map_err(|fault| open_error(&fault))?)),
                slot: None,
            });
        };
        self.guard.check_file(file)?;
        let slot = self.slot(file);
        let mut open = lock(&slot.open);
        let database = if let Some(database) = &open.database {
            database.clone()
        } else {
            open_database(engine, Some(file), &settings)?
        };
        let connection = database.connect().map_err(|fault| open_error(&fault))?;
        open.database = Some(database);
        open.users += 1;
        drop(open);
        Ok(DatabaseHandle {
            connection: Some(Arc::new(connection)),
            slot: Some(slot),
        })
    }

    /// The right to bring credentials to a file; one task has it at a time.
    pub(crate) fn secrets_lock(&self, file: &Path) -> Arc<tokio::sync::Mutex<()>> {
        self.slot(file).secrets_lock.clone()
    }

    fn slot(&self, file: &Path) -> Arc<DatabaseSlot> {
        let mut files = lock(&self.files);
        let name = canonical_path(file);
        let unused = |slot: &Arc<DatabaseSlot>| Arc::strong_count(slot) == 1;
        files.retain(|known, slot| *known == name || !unused(slot));
        files.entry(name).or_default().clone()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let config = self.libraries.config();
        let mut settings = vec![
            ("memory_limit", format!("{}B", config.memory_bytes_max)),
            ("threads", config.threads_max.to_string()),
            // A worker loads what is on its machine and downloads nothing.
            ("autoinstall_known_extensions", "false".to_owned()),
        ];
        if let Some(folder) = &config.extensions {
            settings.push(("extension_directory", folder.display().to_string()));
        }
        settings
    }
}

impl DatabaseHandle {
    /// The connection.
    pub(crate) fn connection(&self) -> &DuckdbConnection {
        self.shared_connection()
    }

    /// What interrupts the connection as long as it is open, and does not keep it open.
    pub(crate) fn weak_connection(&self) -> Weak<DuckdbConnection> {
        Arc::downgrade(self.shared_connection())
    }

    fn shared_connection(&self) -> &Arc<DuckdbConnection> {
        let connection = self.connection.as_ref();
        connection.expect("a lease has its connection until it is dropped")
    }
}

impl Drop for DatabaseHandle {
    fn drop(&mut self) {
        let mut connection = self.connection.take();
        while let Some(shared) = connection {
            // A thread that interrupts it at this moment releases it at once.
            connection = Arc::try_unwrap(shared).err();
            std::thread::yield_now();
        }
        let Some(slot) = self.slot.take() else {
            return;
        };
        let mut open = lock(&slot.open);
        open.users -= 1;
        if open.users == 0 {
            // Under the lock, so that the next call opens the file only after it is closed.
            drop(open.database.take());
        }
    }
}

/// Opens a database, unless descriptors are missing: without one, the library ends this process.
fn open_database(
    engine: &DuckdbLibrary,
    file: Option<&Path>,
    settings: &[(&str, String)],
) -> Result<Arc<DuckdbDatabase>, TaskError> {
    if let Some(shortage) = find_shortage_of(FREE_DESCRIPTORS_MIN) {
        return Err(exhausted_error(&shortage));
    }
    let opened = engine.open(file, settings);
    opened.map(Arc::new).map_err(|fault| open_error(&fault))
}

/// The error of a database that could not be opened.
fn open_error(fault: &DuckdbError) -> TaskError {
    match find_shortage_in(&fault.to_string()) {
        Some(shortage) => exhausted_error(&shortage),
        None => task_error(fault),
    }
}

/// The file under the one name that it has, also if it is not there yet.
fn canonical_path(file: &Path) -> PathBuf {
    if let Ok(full) = file.canonicalize() {
        return full;
    }
    let folder = file.parent().and_then(|folder| folder.canonicalize().ok());
    match (folder, file.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => file.to_owned(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("opening and closing does not panic")
}
