//! Lists of runs that streams share: each distinct filter is read once after a change, for all streams that use it.
//!
//! The first stream with a filter starts a task that reads its runs after each change and renders those that changed. The
//! task ends with the last of these streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use model::id::{ExecutionId, Seq};
use store::{ExecutionFilter, ExecutionRow};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::change_waiter::{ChangeWaiter, StreamSignal};
use crate::api::execution_lists::ExecutionParams;
use crate::api::executions::to_summaries;
use crate::api::state::ApiState;

/// Pause after a list was read, so that the next changes are read together.
const BATCH_DELAY: Duration = Duration::from_millis(100);
/// How long a filter is used: a `*` in it may select playbooks that are registered later, and a duration ends now.
const FILTER_AGE_MAX: Duration = Duration::from_secs(5);
/// How many of the latest runs a list covers.
const FOLLOWED_EXECUTIONS_MAX: usize = 200;

/// The latest runs that match a filter.
#[derive(Debug)]
pub(crate) struct RunListSnapshot {
    /// When it was read, by the store's clock, in microseconds.
    pub(crate) read_at: u64,
    /// The runs, newest first.
    pub(crate) runs: Vec<ListedRun>,
    /// Whether there may be older runs that match.
    pub(crate) is_full: bool,
}

/// A run of a list.
#[derive(Debug, Clone)]
pub(crate) struct ListedRun {
    /// The run.
    pub(crate) id: ExecutionId,
    /// Its last sequence number.
    pub(crate) seq: Seq,
    /// Its summary as JSON.
    pub(crate) summary: Arc<str>,
}

type SnapshotSender = watch::Sender<Option<Arc<RunListSnapshot>>>;
/// Receives each new state of a list; closed when the list cannot be read any more.
pub(crate) type SnapshotReceiver = watch::Receiver<Option<Arc<RunListSnapshot>>>;

/// The lists that open streams follow, by filter.
#[derive(Default)]
pub(crate) struct SharedRunLists {
    senders: Mutex<HashMap<ExecutionParams, Weak<SnapshotSender>>>,
}

impl SharedRunLists {
    /// Follows a list. Starts reading it if no other stream does.
    pub(crate) fn follow(&self, api: &ApiState, params: ExecutionParams) -> SnapshotReceiver {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = senders.get(&params).and_then(Weak::upgrade) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(None);
        let sender = Arc::new(sender);
        senders.insert(params.clone(), Arc::downgrade(&sender));
        let reader = RunListReader {
            api: api.clone(),
            params,
            sender,
            waiter: ChangeWaiter::new(api),
            filter: None,
            filtered_at: None,
            runs: HashMap::new(),
        };
        tokio::spawn(reader.run());
        receiver
    }

    /// Removes a list that no stream follows; returns false if one does.
    fn remove_unused(&self, params: &ExecutionParams, sender: &SnapshotSender) -> bool {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.receiver_count() > 0 {
            return false;
        }
        senders.remove(params);
        true
    }

    /// Removes a list that cannot be read.
    fn remove(&self, params: &ExecutionParams) {
        let mut senders = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        senders.remove(params);
    }
}

/// Reads a list after each change.
struct RunListReader {
    api: ApiState,
    params: ExecutionParams,
    sender: Arc<SnapshotSender>,
    waiter: ChangeWaiter,
    /// The filter that the parameters give; `None` if no playbook matches.
    filter: Option<ExecutionFilter>,
    filtered_at: Option<Instant>,
    /// The runs of the last snapshot.
    runs: HashMap<ExecutionId, ListedRun>,
}

impl RunListReader {
    async fn run(mut self) {
        let lists = Arc::clone(&self.api.run_lists);
        loop {
            self.waiter.discard_pending();
            let Some(snapshot) = self.read_snapshot().await else {
                // The streams end, and their clients connect again.
                lists.remove(&self.params);
                return;
            };
            self.sender.send_replace(Some(Arc::new(snapshot)));
            self.waiter.wait_to_batch(Instant::now() + BATCH_DELAY, None).await;
            tokio::select! {
                signal = self.waiter.wait_for_signal(&self.api.server, None) => {
                    if matches!(signal, StreamSignal::Closed) {
                        lists.remove(&self.params);
                        return;
                    }
                }
                () = self.sender.closed() => {}
            }
            if lists.remove_unused(&self.params, &self.sender) {
                return;
            }
        }
    }

    /// Reads the list; `None` if this fails.
    async fn read_snapshot(&mut self) -> Option<RunListSnapshot> {
        let is_current = |at: Instant| at.elapsed() < FILTER_AGE_MAX;
        if !self.filtered_at.is_some_and(is_current) {
            self.filter = self.params.to_filter(&self.api).await.ok()?;
            self.filtered_at = Some(Instant::now());
        }
        let store = Arc::clone(self.api.store());
        let rows = match &self.filter {
            Some(filter) => {
                let limit = FOLLOWED_EXECUTIONS_MAX;
                let filter = ExecutionFilter {
                    limit,
                    ..filter.clone()
                };
                store.executions(&filter).await.ok()?
            }
            None => Vec::new(),
        };
        let is_full = rows.len() == FOLLOWED_EXECUTIONS_MAX;
        let read_at = u64::try_from(store.now().0).unwrap_or(0);
        let runs = self.render_runs(rows).await?;
        Some(RunListSnapshot { read_at, runs, is_full })
    }

    /// Renders the runs that changed, and reuses the others.
    async fn render_runs(&mut self, rows: Vec<ExecutionRow>) -> Option<Vec<ListedRun>> {
        let is_known = |row: &ExecutionRow| self.runs.get(&row.id).is_some_and(|run| run.seq == row.version);
        let ids: Vec<ExecutionId> = rows.iter().map(|row| row.id).collect();
        let changed: Vec<ExecutionRow> = rows.into_iter().filter(|row| !is_known(row)).collect();
        let changed = to_summaries(&**self.api.store(), changed).await.ok()?;
        for summary in changed {
            let (id, seq) = (summary.execution_id, summary.seq);
            let summary = serde_json::to_string(&summary).unwrap_or_default().into();
            self.runs.insert(id, ListedRun { id, seq, summary });
        }
        let runs: Vec<ListedRun> = ids.iter().filter_map(|id| self.runs.remove(id)).collect();
        self.runs = runs.iter().map(|run| (run.id, run.clone())).collect();
        Some(runs)
    }
}
