//! Limits concurrent requests per host; further requests wait in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::Url;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Beyond this number of hosts, unused ones are dropped.
const HOSTS_MAX: usize = 1024;

/// Semaphores of all hosts.
pub(crate) struct HostLimiter {
    per_host_max: usize,
    hosts: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// Permit for one request to a host; released on drop.
pub(crate) type HostPermit = OwnedSemaphorePermit;

impl HostLimiter {
    pub(crate) fn new(per_host_max: usize) -> Self {
        Self {
            per_host_max: per_host_max.clamp(1, Semaphore::MAX_PERMITS),
            hosts: Mutex::default(),
        }
    }

    /// Waits for a permit for the host and port of a URL.
    pub(crate) async fn acquire(&self, url: &Url) -> HostPermit {
        let host = self.host_semaphore(url);
        let permit = host.acquire_owned().await;
        permit.expect("the semaphore of a host is never closed")
    }

    fn host_semaphore(&self, url: &Url) -> Arc<Semaphore> {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
        }
        let semaphore = hosts.entry(format!("{host}:{port}"));
        semaphore
            .or_insert_with(|| Arc::new(Semaphore::new(self.per_host_max)))
            .clone()
    }
}
