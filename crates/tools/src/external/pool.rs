//! Processes of one external tool: limits their number and keeps idle ones for the next call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::external::manifest::KindManifest;
use crate::external::process::ToolProcess;
use crate::process::StartError;

/// Processes of one external tool.
pub(super) struct ProcessPool {
    slots: Semaphore,
    idle: Mutex<Vec<ToolProcess>>,
    env: BTreeMap<String, String>,
}

impl ProcessPool {
    pub(super) fn new(manifest: &KindManifest, env: BTreeMap<String, String>) -> Self {
        Self {
            slots: Semaphore::new(manifest.processes_max.clamp(1, Semaphore::MAX_PERMITS)),
            idle: Mutex::default(),
            env,
        }
    }

    /// Waits for a permit to run a call.
    pub(super) async fn acquire_slot(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await;
        slot.expect("the semaphore of the slots is never closed")
    }

    /// Returns an idle process, or starts a new one.
    pub(super) fn check_out(&self, manifest: &KindManifest) -> Result<ToolProcess, StartError> {
        while let Some(mut process) = self.take_idle() {
            if process.is_ready() {
                return Ok(process);
            }
        }
        ToolProcess::start(manifest, &self.env)
    }

    /// Returns a process to the pool.
    pub(super) fn check_in(&self, process: ToolProcess) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(process);
    }

    fn take_idle(&self) -> Option<ToolProcess> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }
}
