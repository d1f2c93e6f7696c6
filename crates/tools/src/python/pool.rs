//! Pool of warm interpreters, by Python and sandbox level: checked out for one call and returned if still usable.
//!
//! The number of idle interpreters is limited to the number of concurrent calls; beyond it, the one that has been idle
//! longest is ended.
//!
//! Starting an interpreter uses a full core, so the number of concurrent starts is limited to the number of cores. A
//! call that waits for its start takes an interpreter that is returned meanwhile: many short calls share a few
//! interpreters, and blocking calls eventually get one each.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use crate::isolation::{ResourceLimits, SandboxLevel, SandboxRules};
use crate::process::StartError;
use crate::python::process::Interpreter;
use crate::registry::PythonConfig;

/// Idle interpreters, and the limit of concurrent calls.
pub(crate) struct InterpreterPool {
    call_permits: Semaphore,
    /// Limits concurrent starts.
    start_permits: Semaphore,
    /// Notifies calls that wait for a start that an interpreter was returned.
    returned: Notify,
    /// Longest idle first.
    idle: Mutex<VecDeque<(InterpreterKey, Interpreter)>>,
    idle_max: usize,
    calls_max: u64,
    env: BTreeMap<String, String>,
}

/// Key of an interpreter: how it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterpreterKey {
    pub(crate) python: PathBuf,
    pub(crate) level: SandboxLevel,
}

impl InterpreterPool {
    pub(crate) fn new(config: &PythonConfig, env: BTreeMap<String, String>) -> Self {
        Self {
            call_permits: Semaphore::new(config.pool_max.max(1)),
            start_permits: Semaphore::new(std::thread::available_parallelism().map_or(1, NonZero::get)),
            returned: Notify::new(),
            idle: Mutex::default(),
            idle_max: config.pool_max.max(1),
            calls_max: config.calls_max.max(1),
            env,
        }
    }

    /// Waits for a permit to run a call.
    pub(crate) async fn acquire_slot(&self) -> SemaphorePermit<'_> {
        self.call_permits
            .acquire()
            .await
            .expect("the semaphore of the slots is never closed")
    }

    /// Returns an idle interpreter, or starts a new one.
    pub(crate) async fn check_out(
        &self,
        key: &InterpreterKey,
        rules: &SandboxRules,
    ) -> Result<Interpreter, StartError> {
        loop {
            let put_back = self.returned.notified();
            tokio::pin!(put_back);
            // From here on, no notification is missed.
            put_back.as_mut().enable();
            if let Some(interpreter) = self.take_alive(key) {
                return Ok(interpreter);
            }
            let start = tokio::select! {
                () = put_back => continue,
                start = self.start_permit() => start,
            };
            if let Some(interpreter) = self.take_alive(key) {
                return Ok(interpreter);
            }
            return self
                .start_with_permit(start, key, &ResourceLimits::default(), rules)
                .await;
        }
    }

    /// Starts a new interpreter.
    pub(crate) async fn start(
        &self,
        key: &InterpreterKey,
        limits: &ResourceLimits,
        rules: &SandboxRules,
    ) -> Result<Interpreter, StartError> {
        let start = self.start_permit().await;
        self.start_with_permit(start, key, limits, rules).await
    }

    async fn start_permit(&self) -> SemaphorePermit<'_> {
        let permit = self.start_permits.acquire().await;
        permit.expect("the semaphore of the starts is never closed")
    }

    /// Starts an interpreter and holds the start permit until it accepts calls.
    async fn start_with_permit(
        &self,
        _start: SemaphorePermit<'_>,
        key: &InterpreterKey,
        limits: &ResourceLimits,
        rules: &SandboxRules,
    ) -> Result<Interpreter, StartError> {
        let mut interpreter = Interpreter::start(&key.python, &self.env, limits, rules)?;
        interpreter.wait_for_start().await;
        Ok(interpreter)
    }

    /// Takes an idle interpreter; skips those that were killed meanwhile, so that no call fails because of them.
    fn take_alive(&self, key: &InterpreterKey) -> Option<Interpreter> {
        while let Some(mut interpreter) = self.take_idle(key) {
            if interpreter.is_alive() {
                return Some(interpreter);
            }
        }
        None
    }

    /// Returns an interpreter to the pool.
    pub(crate) fn check_in(&self, key: InterpreterKey, interpreter: Interpreter) {
        if interpreter.is_worn_out(self.calls_max) {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_back((key, interpreter));
        let excess = if idle.len() > self.idle_max {
            idle.pop_front()
        } else {
            None
        };
        drop(idle);
        self.returned.notify_waiters();
        // Drop it after unlocking, because ending a process takes long.
        drop(excess);
    }

    /// Environment variables of the interpreters.
    pub(crate) fn env(&self) -> &BTreeMap<String, String> {
        &self.env
    }

    fn take_idle(&self, key: &InterpreterKey) -> Option<Interpreter> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let index = idle.iter().rposition(|(idle_key, _)| idle_key == key)?;
        idle.remove(index).map(|(_, interpreter)| interpreter)
    }
}
