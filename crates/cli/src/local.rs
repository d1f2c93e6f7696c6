//! Wiring: the store, bodies and logs in one directory.

use std::path::Path;
use std::sync::Arc;

use crate::config::Settings;
use crate::log::Log;
use crate::problem::{Exit, Problem};

/// Where bodies are kept in the store's directory.
const BODIES: &str = "bodies";

/// Opens a store that exists; reading never makes one.
pub(crate) fn existing(settings: &Settings) -> Result<Log, Problem> {
    let dir = &settings.store;
    if !dir.join("noetl.db").is_file() {
        let message = format!("there is no store in `{}`", dir.display());
        return Err(Problem::new(Exit::Unreachable, "STORE_NOT_FOUND", message)
            .help("run a playbook first, or name the store with --store DIR or NOETL_STORE"));
    }
    open(dir)
}

/// Opens a store, and makes it if there is none.
pub(crate) fn open(dir: &Path) -> Result<Log, Problem> {
    let store = store::Sqlite::open(dir)?;
    let bodies = results::Local::open(&dir.join(BODIES)).map_err(|error| Problem {
        exit: Exit::Unreachable,
        code: error.code().into(),
        message: error.to_string(),
        help: Vec::new(),
    })?;
    Ok(Log {
        store: Arc::new(store),
        bodies: Arc::new(bodies),
    })
}
