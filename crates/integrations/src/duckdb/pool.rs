//! Open databases: one per file and process, shared by its tasks, closed when the last one ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use model::outcome::TaskError;
use tools::{exhausted_error, find_shortage_in, find_shortage_of};

use super::failure::DuckdbError;
use super::ffi::{DuckdbConnection, DuckdbDatabase, DuckdbLibrary};
use super::guard::StoreGuard;
use super::library::LibraryLoader;

/// A database is opened only while at least this many file descriptors are free: it needs two, and other threads open
/// files at the same time.
const FREE_DESCRIPTORS_MIN: usize = 16;

/// Open databases of this process.
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

/// Handle of a database; dropping the last one closes the database.
pub(crate) struct DatabaseHandle {
    // Dropped before the user count is checked, so that no connection is open when the database closes. Other
    // references are weak.
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

    /// Connects to a file, or to a new in-memory database. Blocks.
    pub(crate) fn connect(&self, file: Option<&Path>) -> Result<DatabaseHandle, TaskError> {
        let library = self.libraries.library()?;
        let settings = self.settings();
        let Some(file) = file else {
            let connection = open_database(library, None, &settings)?.connect();
            return Ok(DatabaseHandle {
                connection: Some(Arc::new(connection.map_err(open_error)?)),
                slot: None,
            });
        };
        self.guard.check_file(file)?;
        let slot = self.slot(file);
        let mut open = lock(&slot.open);
        let database = if let Some(database) = &open.database {
            database.clone()
        } else {
            open_database(library, Some(file), &settings)?
        };
        let connection = database.connect().map_err(open_error)?;
        open.database = Some(database);
        open.users += 1;
        drop(open);
        Ok(DatabaseHandle {
            connection: Some(Arc::new(connection)),
            slot: Some(slot),
        })
    }

    /// Lock for using credentials with a file; one task holds it at a time.
    pub(crate) fn secrets_lock(&self, file: &Path) -> Arc<tokio::sync::Mutex<()>> {
        self.slot(file).secrets_lock.clone()
    }

    fn slot(&self, file: &Path) -> Arc<DatabaseSlot> {
        let mut files = lock(&self.files);
        let name = canonical_path(file);
        let is_unused = |slot: &Arc<DatabaseSlot>| Arc::strong_count(slot) == 1;
        files.retain(|other, slot| *other == name || !is_unused(slot));
        files.entry(name).or_default().clone()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let config = self.libraries.config();
        let mut settings = vec![
            ("memory_limit", format!("{}B", config.memory_bytes_max)),
            ("threads", config.threads_max.to_string()),
            // Workers load only installed extensions and download nothing.
            ("autoinstall_known_extensions", "false".to_owned()),
        ];
        if let Some(folder) = &config.extensions {
            settings.push(("extension_directory", folder.display().to_string()));
        }
        settings
    }
}

impl DatabaseHandle {
    /// Returns the connection.
    pub(crate) fn connection(&self) -> &DuckdbConnection {
        self.shared_connection()
    }

    /// Reference for interrupting the connection; it does not keep the connection open.
    pub(crate) fn weak_connection(&self) -> Weak<DuckdbConnection> {
        Arc::downgrade(self.shared_connection())
    }

    fn shared_connection(&self) -> &Arc<DuckdbConnection> {
        let connection = self.connection.as_ref();
        connection.expect("a handle has its connection until it is dropped")
    }
}

impl Drop for DatabaseHandle {
    fn drop(&mut self) {
        let mut connection = self.connection.take();
        while let Some(shared) = connection {
            // A thread that is interrupting the statements releases its reference at once.
            connection = Arc::try_unwrap(shared).err();
            std::thread::yield_now();
        }
        let Some(slot) = self.slot.take() else {
            return;
        };
        let mut open = lock(&slot.open);
        open.users -= 1;
        if open.users == 0 {
            // While the lock is held, so that the next call opens the file only after it is closed.
            drop(open.database.take());
        }
    }
}

/// Opens a database if enough descriptors are free: without them, the library ends this process.
fn open_database(
    library: &DuckdbLibrary,
    file: Option<&Path>,
    settings: &[(&str, String)],
) -> Result<Arc<DuckdbDatabase>, TaskError> {
    if let Some(shortage) = find_shortage_of(FREE_DESCRIPTORS_MIN) {
        return Err(exhausted_error(&shortage));
    }
    let opened = library.open(file, settings);
    opened.map(Arc::new).map_err(open_error)
}

/// Error of a database that could not be opened.
fn open_error(error: DuckdbError) -> TaskError {
    match find_shortage_in(&error.to_string()) {
        Some(shortage) => exhausted_error(&shortage),
        None => error.into(),
    }
}

/// Canonical path of a file, even if the file does not exist yet.
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
