//! An open database and its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::symbols::{Handle, Symbols};
use crate::duckdb::failure::Fault;

/// An open database; closed on drop.
pub(crate) struct Database {
    pub(super) api: Arc<Symbols>,
    pub(super) handle: Handle,
}

/// A connection. One thread runs statements on it; any thread may interrupt them.
pub(crate) struct Connection {
    pub(super) handle: Handle,
    pub(super) database: Arc<Database>,
    /// Whether its work was interrupted.
    interrupted: AtomicBool,
}

// SAFETY: DuckDB's database object has its own locks and may be used from any thread.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}
// SAFETY: a connection is not bound to a thread; its context has a lock that serializes its operations.
unsafe impl Send for Connection {}
// SAFETY: as above; interrupting sets an atomic flag.
unsafe impl Sync for Connection {}

impl Database {
    /// Opens a connection.
    pub(crate) fn connect(self: &Arc<Self>) -> Result<Connection, Fault> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the database is open as long as this value lives, and the pointer is to a local value.
        let state = unsafe { (self.api.connect)(self.handle, &raw mut handle) };
        if state != 0 {
            return Err(Fault::new(
                "Connection Error: cannot open a connection".to_owned(),
            ));
        }
        Ok(Connection {
            handle,
            database: self.clone(),
            interrupted: AtomicBool::new(false),
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // SAFETY: connections keep the database alive, so the handle is no longer used.
        unsafe { (self.api.close)(&raw mut self.handle) };
    }
}

impl Connection {
    pub(super) fn api(&self) -> &Symbols {
        &self.database.api
    }

    /// Interrupts the work on this connection.
    pub(crate) fn interrupt(&self) {
        self.interrupted.store(true, Ordering::Relaxed);
        // SAFETY: the connection is open as long as this value lives.
        unsafe { (self.api().interrupt)(self.handle) };
    }

    /// Whether the work on this connection was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: results and statements borrow the connection, so the handle is no longer used.
        unsafe { (self.database.api.disconnect)(&raw mut self.handle) };
    }
}
