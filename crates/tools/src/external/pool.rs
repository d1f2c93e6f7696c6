//! The processes of one kind: so many at once, the ones at rest kept for the next call.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::external::manifest::Manifest;
use crate::external::process::Peer;
use crate::process::NotStarted;

/// The processes of one kind.
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

    /// Waits for the right to make a call.
    pub(super) async fn slot(&self) -> SemaphorePermit<'_> {
        let slot = self.slots.acquire().await;
        slot.expect("the pool's slots are never closed")
    }

    /// A process at rest, or a new one.
    pub(super) fn check_out(&self, manifest: &Manifest) -> Result<Peer, NotStarted> {
        while let Some(mut peer) = self.take_idle() {
            if peer.is_ready() {
                return Ok(peer);
            }
        }
        Peer::start(manifest, &self.env)
    }

    /// Keeps a process that answered.
    pub(super) fn put_back(&self, peer: Peer) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(peer);
    }

    fn take_idle(&self) -> Option<Peer> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop()
    }
}
