//! Warm interpreters, kept per python and per sandbox: checked out for one call, put back if they can go on.
//!
//! No more rest than may work at once, whatever they are for: the one that has rested longest makes room.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::isolation::{Confines, Limits, SandboxLevel};
use crate::process::NotStarted;
use crate::python::process::Interpreter;
use crate::registry::PythonConfig;

/// Interpreters at rest, and how many may work at once.
pub(crate) struct Pool {
    slots: Semaphore,
    /// The one that has rested longest first.
    idle: Mutex<VecDeque<(Kept, Interpreter)>>,
    idle_max: usize,
    calls_max: u64,
    env: BTreeMap<String, String>,
}

/// What an interpreter was started as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) python: PathBuf,
    pub(crate) level: SandboxLevel,
}

impl Pool {
    pub(crate) fn new(config: &PythonConfig, env: BTreeMap<String, String>) -> Self {
        Self {
            slots: Semaphore::new(config.pool_max.max(1)),
            idle: Mutex::default(),
            idle_max: config.pool_max.max(1),
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
    pub(crate) fn check_out(
        &self,
        kept: &Kept,
        confines: &Confines,
    ) -> Result<Interpreter, NotStarted> {
        while let Some(mut interpreter) = self.take_idle(kept) {
            // One that was killed while at rest must not cost a call its outcome.
            if interpreter.is_alive() {
                return Ok(interpreter);
            }
        }
        self.start(kept, &Limits::default(), confines)
    }

    /// A new interpreter.
    pub(crate) fn start(
        &self,
        kept: &Kept,
        limits: &Limits,
        confines: &Confines,
    ) -> Result<Interpreter, NotStarted> {
        Interpreter::start(&kept.python, &self.env, limits, confines)
    }

    /// Keeps an interpreter that answered for the next call.
    pub(crate) fn put_back(&self, kept: Kept, interpreter: Interpreter) {
        if interpreter.is_worn(self.calls_max) {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back((kept, interpreter));
        let over = if idle.len() > self.idle_max {
            idle.pop_front()
        } else {
            None
        };
        drop(idle);
        // Ending a process takes longer than anyone should hold the lock.
        drop(over);
    }

    /// What its interpreters see of the environment.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn take_idle(&self, kept: &Kept) -> Option<Interpreter> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().rposition(|(of, _)| of == kept)?;
        idle.remove(at).map(|(_, interpreter)| interpreter)
    }
}
