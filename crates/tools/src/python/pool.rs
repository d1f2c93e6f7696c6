//! Warm interpreters, kept per python and per sandbox: checked out for one call, put back if they can go on.
//!
//! No more rest than may work at once, whatever they are for: the one that has rested longest makes room.
//!
//! Starting an interpreter keeps a core busy. No more are started at once than there are cores, and a call that waits for
//! its start takes an interpreter that is put back meanwhile: many short calls share a few interpreters, while calls that
//! block get one each in the end.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::isolation::{Confines, Limits, SandboxLevel};
use crate::process::NotStarted;
use crate::python::process::Interpreter;
use crate::registry::PythonConfig;

/// Interpreters at rest, and how many may work at once.
pub(crate) struct Pool {
    slots: Semaphore,
    /// How many may be started at once.
    starts: Semaphore,
    /// Tells those who wait for a start that an interpreter was put back.
    put_back: Notify,
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
            starts: Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)),
            put_back: Notify::new(),
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
    pub(crate) async fn check_out(
        &self,
        kept: &Kept,
        confines: &Confines,
    ) -> Result<Interpreter, NotStarted> {
        loop {
            let put_back = self.put_back.notified();
            tokio::pin!(put_back);
            // From here on nothing that is put back is missed.
            put_back.as_mut().enable();
            if let Some(interpreter) = self.take_alive(kept) {
                return Ok(interpreter);
            }
            let start = tokio::select! {
                () = put_back => continue,
                start = self.start_permit() => start,
            };
            if let Some(interpreter) = self.take_alive(kept) {
                return Ok(interpreter);
            }
            return self.begin(start, kept, &Limits::default(), confines).await;
        }
    }

    /// A new interpreter.
    pub(crate) async fn start(
        &self,
        kept: &Kept,
        limits: &Limits,
        confines: &Confines,
    ) -> Result<Interpreter, NotStarted> {
        let start = self.start_permit().await;
        self.begin(start, kept, limits, confines).await
    }

    async fn start_permit(&self) -> SemaphorePermit<'_> {
        let permit = self.starts.acquire().await;
        permit.expect("the pool's starts are never closed")
    }

    /// Starts an interpreter, and holds the right to do so until it takes calls.
    async fn begin(
        &self,
        _start: SemaphorePermit<'_>,
        kept: &Kept,
        limits: &Limits,
        confines: &Confines,
    ) -> Result<Interpreter, NotStarted> {
        let mut interpreter = Interpreter::start(&kept.python, &self.env, limits, confines)?;
        interpreter.wait_for_start().await;
        Ok(interpreter)
    }

    /// An interpreter at rest. One that was killed meanwhile must not cost a call its outcome.
    fn take_alive(&self, kept: &Kept) -> Option<Interpreter> {
        while let Some(mut interpreter) = self.take_idle(kept) {
            if interpreter.is_alive() {
                return Some(interpreter);
            }
        }
        None
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
        self.put_back.notify_waiters();
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
