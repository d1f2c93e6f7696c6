//! Connections for reading: opened on demand, reused, and limited in number.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::sqlite::queries::ReadError;
use crate::sqlite::store_error;

/// Maximum number of concurrent queries. Each uses a thread and a connection, with the memory of both.
const READERS_MAX: usize = 8;

/// The connections that one process uses to read a store.
pub(super) struct ReadPool {
    file: PathBuf,
    connect: fn(&Path) -> Result<Connection, Error>,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Connection>>>,
}

impl ReadPool {
    /// Creates readers of a file, which open connections with `connect`.
    pub(super) fn new(file: &Path, connect: fn(&Path) -> Result<Connection, Error>) -> Self {
        Self {
            file: file.to_owned(),
            connect,
            permits: Arc::new(Semaphore::new(READERS_MAX)),
            idle: Arc::default(),
        }
    }

    /// The database file.
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Runs a query on its own connection, outside the async threads.
    pub(super) async fn run_query<T, F>(&self, query: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|error| Error::Unavailable(error.into()))?;
        let idle = Arc::clone(&self.idle);
        let (file, connect) = (self.file.clone(), self.connect);
        let job = move || {
            let idle_connection = idle.lock().expect("accessing the idle readers does not panic").pop();
            let mut db = match idle_connection {
                Some(db) => db,
                None => connect(&file)?,
            };
            let result = in_transaction(&mut db, query).map_err(|read_error| into_store_error(&file, read_error));
            idle.lock().expect("accessing the idle readers does not panic").push(db);
            // The caller may have gone away, but this thread was busy until here.
            drop(permit);
            result
        };
        tokio::task::spawn_blocking(job)
            .await
            .map_err(|error| Error::Unavailable(error.into()))?
    }
}

fn in_transaction<T>(
    db: &mut Connection,
    query: impl FnOnce(&Connection) -> Result<T, ReadError>,
) -> Result<T, ReadError> {
    let transaction = db.transaction()?;
    let result = query(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

fn into_store_error(file: &Path, read_error: ReadError) -> Error {
    match read_error {
        ReadError::Sqlite(error) => store_error::into_store_error(file, error),
        ReadError::Damaged(source) => Error::Corrupt {
            file: file.to_owned(),
            source,
        },
    }
}
