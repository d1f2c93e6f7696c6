//! The workers known to this server: for lists, and to skip session renewals that are not due.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use model::id::WorkerId;
use store::SessionHolder;
use tokio::time::Instant;
use wire::api::{HeartbeatRequest, WorkerPool};

/// A claim does not renew a session that was renewed within this time.
const FRESH: Duration = Duration::from_secs(4);
/// A worker without a heartbeat for this long is removed from lists.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Workers by ID.
#[derive(Default)]
pub(crate) struct Workers {
    known: Mutex<HashMap<WorkerId, Known>>,
}

struct Known {
    heard: Instant,
    /// When and for which holder this server last renewed the session.
    renewed: Option<Renewal>,
    shown: WorkerPool,
}

struct Renewal {
    at: Instant,
    holder: SessionHolder,
}

impl Workers {
    /// Records the data of a heartbeat.
    pub(crate) fn seen(&self, request: &HeartbeatRequest) {
        let holds = u32::try_from(request.holds.len()).unwrap_or(u32::MAX);
        self.note(&request.worker, |known| {
            known.shown.holds = holds;
            if request.pool.is_some() {
                known.shown.pool.clone_from(&request.pool);
            }
            known.shown.slots = request.slots.or(known.shown.slots);
        });
    }

    /// Records that a session was just renewed.
    pub(crate) fn renewed(&self, worker: &WorkerId, holder: &SessionHolder) {
        let renewal = Renewal {
            at: Instant::now(),
            holder: holder.clone(),
        };
        self.note(worker, |known| known.renewed = Some(renewal));
    }

    /// Whether this holder's session was renewed so recently that a claim does not have to renew it.
    pub(crate) fn is_fresh(&self, worker: &WorkerId, holder: &SessionHolder) -> bool {
        let known = self.lock();
        let renewal = known.get(worker).and_then(|known| known.renewed.as_ref());
        renewal.is_some_and(|renewal| renewal.holder == *holder && renewal.at.elapsed() < FRESH)
    }

    /// Removes a worker that deregistered.
    pub(crate) fn gone(&self, worker: &WorkerId) {
        self.lock().remove(worker);
    }

    /// Workers with a recent call, by name.
    pub(crate) fn list(&self) -> Vec<WorkerPool> {
        let mut list: Vec<WorkerPool> = self
            .lock()
            .values()
            .map(|known| known.shown.clone())
            .collect();
        list.sort_by(|a, b| a.worker.cmp(&b.worker));
        list
    }

    fn note<T>(&self, worker: &WorkerId, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.lock();
        known.retain(|_, known| known.heard.elapsed() < SILENT_MAX);
        let entry = known.entry(worker.clone()).or_insert_with(|| Known {
            heard: Instant::now(),
            renewed: None,
            shown: WorkerPool {
                worker: worker.clone(),
                pool: None,
                slots: None,
                holds: 0,
            },
        });
        entry.heard = Instant::now();
        change(entry)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<WorkerId, Known>> {
        self.known
            .lock()
            .expect("no holder of the workers lock panics")
    }
}
