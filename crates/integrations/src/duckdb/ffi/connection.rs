//! An open database and its connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::symbols::{Handle, Symbols};
use crate::duckdb::failure::DuckdbError;

/// An open database; closed on drop.
pub(crate) struct DuckdbDatabase {
    pub(super) api: Arc<Symbols>,
    pub(super) handle: Handle,
}

/// A connection. One thread runs statements on it; any thread may interrupt them.
pub(crate) struct DuckdbConnection {
    pub(super) handle: Handle,
    pub(super) database: Arc<DuckdbDatabase>,
    /// Whether its work was interrupted.
    is_interrupted: AtomicBool,
}

// SAFETY: DuckDB's database object has its own locks and may be used from any thread.
unsafe impl Send for DuckdbDatabase {}
// SAFETY: as above.
unsafe impl Sync for DuckdbDatabase {}
// SAFETY: a connection is not bound to a thread; its context has a lock that serializes its operations.
unsafe impl Send for DuckdbConnection {}
// SAFETY: as above; interrupting sets an atomic flag.
unsafe impl Sync for DuckdbConnection {}

impl DuckdbDatabase {
    /// Opens a connection.
    pub(crate) fn connect(self: &Arc<Self>) -> Result<DuckdbConnection, DuckdbError> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the database is open as long as this value lives, and the pointer is to a local value.
        let state = unsafe { (self.api.connect)(self.handle, &raw mut handle) };
        if state != 0 {
            return Err(DuckdbError::new(
                "Connection Error: cannot open a connection".to_owned(),
            ));
        }
        Ok(DuckdbConnection {
            handle,
            database: self.clone(),
            is_interrupted: AtomicBool::new(false),
        })
    }
}

impl Drop for DuckdbDatabase {
    fn drop(&mut self) {
        // SAFETY: connections keep the database alive, so the handle is no longer used.
        unsafe { (self.api.close)(&raw mut self.handle) };
    }
}

impl DuckdbConnection {
    pub(super) fn api(&self) -> &Symbols {
        &self.database.api
    }

    /// Interrupts the work on this connection.
    pub(crate) fn interrupt(&self) {
        self.is_interrupted.store(true, Ordering::Relaxed);
        // SAFETY: the connection is open as long as this value lives.
        unsafe { (self.api().interrupt)(self.handle) };
    }

    /// Whether the work on this connection was interrupted.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }
}

impl Drop for DuckdbConnection {
    fn drop(&mut self) {
        // SAFETY: results and statements borrow the connection, so the handle is no longer used.
        unsafe { (self.database.api.disconnect)(&raw mut self.handle) };
    }
}
