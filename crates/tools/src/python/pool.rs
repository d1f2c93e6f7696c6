//! Warm interpreters, kept per python: checked out for one call, put back if they can go on.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::isolation::Limits;
use crate::process::NotStarted;
use crate::python::process::Interpreter;
use crate::registry::PythonConfig;

/// Interpreters at rest, and how many may work at once.
pub(crate) struct Pool {
    slots: Semaphore,
    idle: Mutex<HashMap<PathBuf, Vec<Interpreter>>>,
    calls_max: u64,
    env: BTreeMap<String, String>,
}

impl Pool {
    pub(crate) fn new(config: &PythonConfig, env: BTreeMap<String, String>) -> Self {
        Self {
            slots: Semaphore::new(config.pool_max.max(1)),
            idle: Mutex::default(),
            calls_max: config.calls_max.max(1),
            env,
        }
    }

    /// Waits for the right to run a call.
    pub(crate) async fn slot(&self) -> SemaphorePermit<'_> {
        self.slots
            .acquire()
            .await
            .expect("the pool's slots are never closed")
    }

    /// A warm interpreter, or a new one.
    pub(crate) fn check_out(&self, python: &Path) -> Result<Interpreter, NotStarted> {
        while let Some(mut interpreter) = self.take_idle(python) {
            // One that was killed while at rest must not cost a call its outcome.
            if interpreter.is_alive() {
                return Ok(interpreter);
            }
        }
        self.start(python, &Limits::default())
    }

    /// A new interpreter.
    pub(crate) fn start(&self, python: &Path, limits: &Limits) -> Result<Interpreter, NotStarted> {
        Interpreter::start(python, &self.env, limits)
    }

    /// Keeps an interpreter that answered for the next call.
    pub(crate) fn put_back(&self, python: &Path, interpreter: Interpreter) {
        if interpreter.is_worn(self.calls_max) {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match idle.get_mut(python) {
            Some(list) => list.push(interpreter),
            None => {
                idle.insert(python.to_owned(), vec![interpreter]);
            }
        }
    }

    fn take_idle(&self, python: &Path) -> Option<Interpreter> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.get_mut(python)?.pop()
    }
}
