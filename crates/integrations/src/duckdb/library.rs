//! Finds the library: at the configured path, else by its usual names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use model::outcome::{ErrorKind, TaskError};
use tools::{exhausted_error, find_shortage_in};

use super::ffi::DuckdbLibrary;
use crate::config::DuckdbConfig;

/// Usual names of the library.
const LIBRARY_NAMES: [&str; 2] = ["libduckdb.so", "libduckdb.dylib"];

/// The library, loaded on first use.
#[derive(Clone)]
pub(crate) struct LibraryLoader {
    config: DuckdbConfig,
    loaded: Arc<OnceLock<DuckdbLibrary>>,
}

impl LibraryLoader {
    pub(crate) fn new(config: DuckdbConfig) -> Self {
        Self {
            config,
            loaded: Arc::default(),
        }
    }

    pub(crate) fn config(&self) -> &DuckdbConfig {
        &self.config
    }

    /// Returns the library; blocks while it is loaded.
    pub(crate) fn library(&self) -> Result<&DuckdbLibrary, TaskError> {
        if let Some(engine) = self.loaded.get() {
            return Ok(engine);
        }
        let engine = match &self.config.library {
            Some(file) => {
                DuckdbLibrary::load(file).map_err(|error| missing_library_error(Some(file), &error.to_string()))
            }
            None => load_by_name(),
        }?;
        tracing::debug!(version = engine.version(), "loaded DuckDB");
        Ok(self.loaded.get_or_init(|| engine))
    }
}

fn load_by_name() -> Result<DuckdbLibrary, TaskError> {
    let mut last = String::new();
    for name in LIBRARY_NAMES {
        match DuckdbLibrary::load(Path::new(name)) {
            Ok(engine) => return Ok(engine),
            Err(error) => last = error.to_string(),
        }
    }
    Err(missing_library_error(None, &last))
}

fn missing_library_error(file: Option<&PathBuf>, problem: &str) -> TaskError {
    if let Some(shortage) = find_shortage_in(problem) {
        return exhausted_error(&shortage);
    }
    let missing = match file {
        Some(file) => format!("cannot load `{}` (NOETL_DUCKDB_LIB)", file.display()),
        None => "cannot find the DuckDB library on this worker".to_owned(),
    };
    let message = format!(
        "{missing} ({problem}): get `libduckdb` for your system from duckdb.org (\"C/C++\"), from `brew install duckdb`, or \
         from the npm package @duckdb/node-bindings-linux-x64, and set NOETL_DUCKDB_LIB to its path"
    );
    TaskError::new(ErrorKind::ClientError, "DUCKDB_MISSING", message)
}
