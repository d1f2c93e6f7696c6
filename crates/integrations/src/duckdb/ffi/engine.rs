//! The library: loaded once, never unloaded while a database is open.

use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::sync::Arc;

use libloading::Library;

use super::connection::DuckdbDatabase;
use super::symbols::{Handle, Symbols};
use crate::duckdb::failure::DuckdbError;

/// A loaded library.
#[derive(Clone)]
pub(crate) struct DuckdbLibrary {
    pub(super) api: Arc<Symbols>,
}

/// Why a library could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct LibraryLoadError(#[from] libloading::Error);

impl DuckdbLibrary {
    /// Loads the library with this path or name.
    pub(crate) fn load(library: &Path) -> Result<Self, LibraryLoadError> {
        // SAFETY: the operator of the worker configures the DuckDB library; loading it only runs its initializers.
        let library = unsafe { Library::new(library) }?;
        // SAFETY: a library without all of these symbols is rejected, and DuckDB keeps their types stable.
        let api = unsafe { Symbols::find(library) }?;
        Ok(Self { api: Arc::new(api) })
    }

    /// Version of the library, such as `v1.4.1`.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the library owns the returned text and never frees it.
        unsafe { copy_c_text((self.api.library_version)()) }
    }

    /// Opens a database: a file, or in memory.
    pub(crate) fn open(&self, file: Option<&Path>, settings: &[(&str, String)]) -> Result<DuckdbDatabase, DuckdbError> {
        use std::os::unix::ffi::OsStrExt as _;
        let path = match file {
            Some(file) => to_c_string(file.as_os_str().as_bytes())?,
            None => to_c_string(b":memory:")?,
        };
        let config = DatabaseSettings::new(&self.api, settings)?;
        let mut handle: Handle = std::ptr::null_mut();
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: every pointer is to a value that outlives the call.
        let state = unsafe { (self.api.open_ext)(path.as_ptr(), &raw mut handle, config.handle, &raw mut error) };
        if state != 0 {
            // SAFETY: the library returned null or a text that the caller must free.
            let message = unsafe { take_c_text(&self.api, error) };
            return Err(DuckdbError::new(message));
        }
        Ok(DuckdbDatabase {
            api: self.api.clone(),
            handle,
        })
    }
}

/// Settings of a database to open.
struct DatabaseSettings<'a> {
    api: &'a Symbols,
    handle: Handle,
}

impl<'a> DatabaseSettings<'a> {
    fn new(api: &'a Symbols, settings: &[(&str, String)]) -> Result<Self, DuckdbError> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a local value.
        let code = unsafe { (api.create_config)(&raw mut handle) };
        let settings_made = Self { api, handle };
        if code != 0 {
            return Err(DuckdbError::new("cannot create the database settings".to_owned()));
        }
        for (name, value) in settings {
            let (key, text) = (to_c_string(name.as_bytes())?, to_c_string(value.as_bytes())?);
            // SAFETY: the handle was just created, and both texts outlive the call.
            if unsafe { (api.set_config)(handle, key.as_ptr(), text.as_ptr()) } != 0 {
                return Err(DuckdbError::new(format!(
                    "Invalid Configuration Error: invalid value `{value}` for `{name}`"
                )));
            }
        }
        Ok(settings_made)
    }
}

impl Drop for DatabaseSettings<'_> {
    fn drop(&mut self) {
        // SAFETY: this value owns the handle, which is not used afterwards.
        unsafe { (self.api.destroy_config)(&raw mut self.handle) };
    }
}

/// Converts text to a C string.
pub(super) fn to_c_string(text: &[u8]) -> Result<CString, DuckdbError> {
    CString::new(text).map_err(|_| DuckdbError::new("Parser Error: a text contains a NUL character".to_owned()))
}

/// Copies a text that the library owns; empty if null.
///
/// # Safety
/// The pointer must be null or point to a NUL-terminated text.
pub(super) unsafe fn copy_c_text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

/// Copies and frees a text that the library allocated for its caller.
///
/// # Safety
/// The pointer must be null, or point to a NUL-terminated text that the library allocated for its caller.
pub(super) unsafe fn take_c_text(api: &Symbols, pointer: *mut c_char) -> String {
    // SAFETY: guaranteed by the caller.
    let copy = unsafe { copy_c_text(pointer) };
    if !pointer.is_null() {
        // SAFETY: it was allocated for this caller and is no longer used.
        unsafe { (api.free)(pointer.cast()) };
    }
    copy
}
