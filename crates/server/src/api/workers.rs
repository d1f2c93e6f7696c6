//! The workers that this server has heard of: what lists show, and whose sessions need no renewal yet.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use model::id::WorkerId;
use store::SessionHolder;
use tokio::time::Instant;
use wire::api::{HeartbeatRequest, WorkerPool};

/// A session renewed so recently needs no renewal for the sake of a claim.
const FRESH: Duration = Duration::from_secs(4);
/// A worker that has not been heard of for so long is listed no more.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Workers by session.
#[derive(Default)]
pub(crate) struct Workers {
    known: Mutex<HashMap<WorkerId, Known>>,
}

struct Known {
    heard: Instant,
    /// When its session was renewed here last, and for whom.
    renewed: Option<Renewal>,
    shown: WorkerPool,
}

struct Renewal {
    at: Instant,
    holder: SessionHolder,
}

impl Workers {
    /// Takes in what a heartbeat says of its worker.
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

    /// Remembers that a session was renewed just now.
    pub(crate) fn renewed(&self, worker: &WorkerId, holder: &SessionHolder) {
        let renewal = Renewal {
            at: Instant::now(),
            holder: holder.clone(),
        };
        self.note(worker, |known| known.renewed = Some(renewal));
    }

    /// Whether the session of this holder was renewed so recently that it needs no renewal for the sake of a claim.
    pub(crate) fn is_fresh(&self, worker: &WorkerId, holder: &SessionHolder) -> bool {
        let known = self.lock();
        let renewal = known.get(worker).and_then(|known| known.renewed.as_ref());
        renewal.is_some_and(|renewal| renewal.holder == *holder && renewal.at.elapsed() < FRESH)
    }

    /// A worker has ended.
    pub(crate) fn gone(&self, worker: &WorkerId) {
        self.lock().remove(worker);
    }

    /// Every worker heard of lately, by name.
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
        self.known.lock().expect("no holder of the workers panics")
    }
}
