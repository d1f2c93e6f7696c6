//! Processes of one external tool: limits their number and keeps idle ones for the next call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::external::manifest::Manifest;
use crate::external::process::Peer;
use crate::process::NotStarted;

/// Processes of one external tool.
pub(super) struct Pool {
    slots: Semaphore,
    idle: Mutex<Vec<Peer>>,
    env: BTreeMap<String, String>,
}

impl Pool {
    pub(super) fn new(manifest: &Manifest, env: BTreeMap<String, String>) -> Self {
        Self {
            slots: Semaphore::new(manifest.processes_max.clamp(1, Semaphore::MAX_PERMITS)),
            idle: Mutex::default(),
            env,
        }
    }

    /// Waits for a permit to run a call.
    pub(super) async fn slot(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await;
        slot.expect("the semaphore of the slots is never closed")
    }

    /// Returns an idle process, or starts a new one.
    pub(super) fn check_out(&self, manifest: &Manifest) -> Result<Peer, NotStarted> {
        while let Some(mut peer) = self.take_idle() {
            if peer.is_ready() {
                return Ok(peer);
            }
        }
        Peer::start(manifest, &self.env)
    }

    /// Returns a process to the pool.
    pub(super) fn put_back(&self, peer: Peer) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(peer);
    }

    fn take_idle(&self) -> Option<Peer> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }
}
