//! Turns at a host: so many requests at once and no more; the others wait in the order they came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Hosts that nobody asks any more are forgotten once there are this many.
const HOSTS_MAX: usize = 1024;

/// The turns at all hosts.
pub(crate) struct Turns {
    per_host_max: usize,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// The right to ask a host; given back when it is dropped.
pub(crate) type Turn = OwnedSemaphorePermit;

impl Turns {
    pub(crate) fn new(per_host_max: usize) -> Self {
        Self {
            per_host_max: per_host_max.clamp(1, Semaphore::MAX_PERMITS),
            hosts: Mutex::default(),
        }
    }

    /// Waits for a turn at the host and port of a URL.
    pub(crate) async fn take(&self, url: &Url) -> Turn {
        let host = self.host(url);
        let turn = host.acquire_owned().await;
        turn.expect("the turns of a host are never closed")
    }

    fn host(&self, url: &Url) -> Arc<Semaphore> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, turns| Arc::strong_count(turns) > 1);
        }
        let turns = hosts.entry(format!("{host}:{port}"));
        turns
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_host_max)))
            .clone()
    }
}
