//! Finds the library: at the configured path, else by its usual names.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use model::outcome::{ErrorKind, TaskError};

use super::ffi::Engine;
use crate::exhaustion::{exhausted, find_shortage_in};
use crate::registry::DuckdbConfig;

/// Usual names of the library.
const NAMES: [&str; 2] = ["libduckdb.so", "libduckdb.dylib"];

/// The library, loaded on first use.
#[derive(Clone)]
pub(crate) struct Libraries {
    config: DuckdbConfig,
    loaded: Arc<OnceLock<Engine>>,
}

impl Libraries {
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
    pub(crate) fn engine(&self) -> Result<&Engine, TaskError> {
        if let Some(engine) = self.loaded.get() {
            return Ok(engine);
        }
        let engine = match &self.config.library {
            Some(file) => {
                Engine::load(file).map_err(|error| missing(Some(file), &error.to_string()))
            }
            None => by_name(),
        }?;
        tracing::debug!(version = engine.version(), "loaded DuckDB");
        Ok(self.loaded.get_or_init(|| engine))
    }
}

fn by_name() -> Result<Engine, TaskError> {
    let mut last = String::new();
    for name in NAMES {
        match Engine::load(Path::new(name)) {
            Ok(engine) => return Ok(engine),
            Err(error) => last = error.to_string(),
        }
    }
    Err(missing(None, &last))
}

fn missing(file: Option<&PathBuf>, problem: &str) -> TaskError {
    if let Some(shortage) = find_shortage_in(problem) {
        return exhausted(&shortage);
    }
    let what = match file {
        Some(file) => format!("cannot load `{}` (NOETL_DUCKDB_LIB)", file.display()),
        None => "cannot find the DuckDB library on this worker".to_owned(),
    };
    let message = format!(
        "{what} ({problem}): get `libduckdb` for your system from duckdb.org (\"C/C++\"), from `brew install duckdb`, or \
         from the npm package @duckdb/node-bindings-linux-x64, and set NOETL_DUCKDB_LIB to its path"
    );
    TaskError::new(ErrorKind::ClientError, "DUCKDB_MISSING", message)
}
