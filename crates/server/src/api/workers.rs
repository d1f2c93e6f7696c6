//! The workers known to this server: for lists, and to skip session renewals that are not due.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use model::id::WorkerId;
use store::SessionHolder;
use tokio::time::Instant;
use wire::api::{HeartbeatRequest, WorkerEntry};

/// A claim does not renew a session that was renewed within this time.
const RENEWAL_AGE_MAX: Duration = Duration::from_secs(4);
/// A worker without a heartbeat for this long is removed from lists.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Workers by ID.
#[derive(Default)]
pub(crate) struct WorkerSessions {
    records: Mutex<HashMap<WorkerId, WorkerRecord>>,
}

struct WorkerRecord {
    heartbeat_at: Instant,
    /// When and for which holder this server last renewed the session.
    renewal: Option<Renewal>,
    entry: WorkerEntry,
}

struct Renewal {
    renewed_at: Instant,
    holder: SessionHolder,
}

impl WorkerSessions {
    /// Records the data of a heartbeat.
    pub(crate) fn record_heartbeat(&self, request: &HeartbeatRequest) {
        let claim_count = u32::try_from(request.claims.len()).unwrap_or(u32::MAX);
        self.update(&request.worker, |entry| {
            entry.entry.claims = claim_count;
            let description = &request.description;
            if description.pool.is_some() {
                entry.entry.pool.clone_from(&description.pool);
            }
            entry.entry.slots = description.slots.or(entry.entry.slots);
        });
    }

    /// Records that a session was just renewed.
    pub(crate) fn record_renewal(&self, worker: &WorkerId, holder: &SessionHolder) {
        let renewal = Renewal {
            renewed_at: Instant::now(),
            holder: holder.clone(),
        };
        self.update(worker, |entry| entry.renewal = Some(renewal));
    }

    /// Whether this holder's session was renewed so recently that a claim does not have to renew it.
    pub(crate) fn is_recently_renewed(&self, worker: &WorkerId, holder: &SessionHolder) -> bool {
        let workers = self.lock();
        let renewal = workers.get(worker).and_then(|workers| workers.renewal.as_ref());
        renewal.is_some_and(|renewal| renewal.holder == *holder && renewal.renewed_at.elapsed() < RENEWAL_AGE_MAX)
    }

    /// Removes a worker that deregistered.
    pub(crate) fn remove(&self, worker: &WorkerId) {
        self.lock().remove(worker);
    }

    /// Workers with a recent call, by name.
    pub(crate) fn list(&self) -> Vec<WorkerEntry> {
        let mut list: Vec<WorkerEntry> = self.lock().values().map(|worker| worker.entry.clone()).collect();
        list.sort_by(|a, b| a.worker.cmp(&b.worker));
        list
    }

    fn update<T>(&self, worker: &WorkerId, change: impl FnOnce(&mut WorkerRecord) -> T) -> T {
        let mut workers = self.lock();
        workers.retain(|_, workers| workers.heartbeat_at.elapsed() < SILENT_MAX);
        let entry = workers.entry(worker.clone()).or_insert_with(|| WorkerRecord {
            heartbeat_at: Instant::now(),
            renewal: None,
            entry: WorkerEntry {
                worker: worker.clone(),
                pool: None,
                slots: None,
                claims: 0,
            },
        });
        entry.heartbeat_at = Instant::now();
        change(entry)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkerId, WorkerRecord>> {
        self.records.lock().expect("no holder of the workers lock panics")
    }
}
