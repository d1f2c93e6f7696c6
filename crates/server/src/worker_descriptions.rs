//! What workers send about themselves, stored in their sessions so that every server of the cluster can list them.
//!
//! A heartbeat arrives every few seconds and rarely says anything new, so this process remembers what it has stored.

use std::sync::Mutex;

use model::cache::BoundedCache;
use model::id::WorkerId;
use store::{SessionHolder, Store};
use wire::api::WorkerDescription;

/// Maximum size of a stored description as JSON.
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Number of workers whose descriptions are cached; a worker without an entry is stored with each heartbeat.
const WORKERS_MAX: u64 = 4_096;

/// The descriptions that this process has stored.
pub(crate) struct WorkerDescriptions {
    stored: Mutex<BoundedCache<WorkerId, (SessionHolder, String)>>,
}

impl Default for WorkerDescriptions {
    fn default() -> Self {
        Self {
            stored: Mutex::new(BoundedCache::new(WORKERS_MAX)),
        }
    }
}

impl WorkerDescriptions {
    /// Stores a description that differs from the last one of this session. A worker that does not name its pool is of
    /// an older version, and its description is not stored.
    pub(crate) async fn record(
        &self,
        store: &dyn Store,
        worker: &WorkerId,
        holder: &SessionHolder,
        description: &WorkerDescription,
    ) -> Result<(), store::Error> {
        if description.pool.is_none() {
            return Ok(());
        }
        let text = serde_json::to_string(description).expect("plain data serializes to JSON");
        let current = (holder.clone(), text);
        // A worker whose description exceeds the limit is listed without it.
        if current.1.len() > DESCRIPTION_BYTES_MAX || self.entries().get(worker).as_ref() == Some(&current) {
            return Ok(());
        }
        store
            .monitoring_store()
            .describe_worker(worker, holder, &current.1)
            .await?;
        self.entries().insert(worker.clone(), current, 1);
        Ok(())
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, BoundedCache<WorkerId, (SessionHolder, String)>> {
        self.stored.lock().expect("no holder of the descriptions lock panics")
    }
}
