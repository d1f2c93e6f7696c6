//! The workers that this server has heard of: what lists show, and whose sessions need no renewal yet.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use model::id::WorkerId;
use store::AccessId;
use tokio::time::Instant;
use wire::api::{HeartbeatRequest, WorkerPool};

use crate::Server;
use crate::transport::SESSION_TTL;

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
    renewed: Option<Instant>,
    /// The access token that claimed commands under this name last.
    claimed_by: Option<AccessId>,
    shown: WorkerPool,
}

impl Workers {
    /// Takes in a sign of life, which renews the session.
    pub(crate) fn seen(&self, request: &HeartbeatRequest) {
        let holds = u32::try_from(request.holds.len()).unwrap_or(u32::MAX);
        self.note(&request.worker, |known| {
            known.renewed = Some(Instant::now());
            known.shown.holds = holds;
            if request.pool.is_some() {
                known.shown.pool.clone_from(&request.pool);
            }
            known.shown.slots = request.slots.or(known.shown.slots);
        });
    }

    /// Renews the session of a worker that asks for work, unless that was done just now.
    pub(crate) async fn keep(
        &self,
        server: &Server,
        worker: &WorkerId,
    ) -> Result<(), store::Error> {
        let is_fresh = self.note(worker, |known| {
            known
                .renewed
                .is_some_and(|renewed| renewed.elapsed() < FRESH)
        });
        if is_fresh {
            return Ok(());
        }
        server.shared.store.renew(worker, SESSION_TTL).await?;
        self.note(worker, |known| known.renewed = Some(Instant::now()));
        Ok(())
    }

    /// Remembers whose access token claims commands under a worker's name.
    pub(crate) fn claims_with(&self, worker: &WorkerId, token: Option<AccessId>) {
        self.note(worker, |known| known.claimed_by = token);
    }

    /// Whether commands were claimed here under this name with this access token.
    pub(crate) fn has_claimed(&self, worker: &WorkerId, token: AccessId) -> bool {
        let known = self.lock();
        let known = known.get(worker).and_then(|known| known.claimed_by);
        known == Some(token)
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
            claimed_by: None,
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
