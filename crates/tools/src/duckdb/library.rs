//! Where the library is: where the configuration says, else under the names that systems give it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use model::outcome::{ErrorKind, TaskError};

use super::ffi::Engine;
use crate::exhaustion::{exhausted, find_shortage_in};
use crate::registry::DuckdbConfig;

/// The names that systems give the library.
const NAMES: [&str; 2] = ["libduckdb.so", "libduckdb.dylib"];

/// The library, loaded when it is first needed.
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

    /// The library. It blocks while the file is read.
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
        tracing::debug!(version = engine.version(), "DuckDB is loaded");
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
        Some(file) => format!(
            "`{}`, which NOETL_DUCKDB_LIB names, cannot be used",
            file.display()
        ),
        None => "DuckDB's library is not on this worker".to_owned(),
    };
    let message = format!(
        "{what} ({problem}): get `libduckdb` of your system from duckdb.org (\"C/C++\"), from `brew install duckdb`, or from the npm \
         package @duckdb/node-bindings-linux-x64, and say in NOETL_DUCKDB_LIB where it is"
    );
    TaskError::new(ErrorKind::ClientError, "DUCKDB_MISSING", message)
}
