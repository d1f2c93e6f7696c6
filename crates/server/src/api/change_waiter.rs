//! What wakes a stream: commits of this server, and changes of the store by other processes.

use std::sync::Arc;

use axum::http::StatusCode;
use model::id::ExecutionId;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::{CommitNotice, Server};

/// Reserves one of the streams that may be open at a time.
pub(crate) fn reserve_stream(api: &ApiState) -> Result<OwnedSemaphorePermit, ApiError> {
    let permit = Arc::clone(&api.streams).try_acquire_owned();
    permit.map_err(|_| {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let detail = "too many open streams on this server";
        ApiError::new(status, "TOO_MANY_STREAMS", detail)
            .with_remedy("close unused streams, or read pages: GET /api/executions/{id}/events")
    })
}

/// Waits for changes: a commit of this server, or a change of the store by another process.
pub(crate) struct ChangeWaiter {
    commits: Receiver<Arc<CommitNotice>>,
    ended_executions: Receiver<ExecutionId>,
    changes: store::ChangeWatch,
    closing: CancellationToken,
}

impl ChangeWaiter {
    pub(crate) fn new(api: &ApiState) -> Self {
        Self {
            commits: api.server.subscribe_commits(),
            ended_executions: api.server.shared.ended_executions.subscribe(),
            changes: store::ChangeWatch::default(),
            closing: api.closing.clone(),
        }
    }

    /// Waits for a change of one run, or of any run.
    pub(crate) async fn wait_for_signal(&mut self, server: &Server, execution: Option<ExecutionId>) -> StreamSignal {
        loop {
            tokio::select! {
                biased;
                published = self.commits.recv() => match published {
                    Ok(commit) if execution.is_none_or(|id| commit.execution == id) => return StreamSignal::Commit(commit),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return StreamSignal::StoreChanged,
                    Err(RecvError::Closed) => return StreamSignal::Closed,
                },
                () = self.changes.wait_for_change(&*server.shared.store) => return StreamSignal::StoreChanged,
                () = self.closing.cancelled() => return StreamSignal::Closed,
            }
        }
    }

    /// Returns a pending change of a run without waiting.
    pub(crate) fn ready_signal(&mut self, execution: ExecutionId) -> Option<StreamSignal> {
        loop {
            match self.commits.try_recv() {
                Ok(commit) if commit.execution == execution => return Some(StreamSignal::Commit(commit)),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Lagged(_)) => return Some(StreamSignal::StoreChanged),
                Err(TryRecvError::Closed) => return Some(StreamSignal::Closed),
            }
        }
    }

    /// Skips pending commits: the following read of the store covers them.
    pub(crate) fn discard_pending(&mut self) {
        self.commits = self.commits.resubscribe();
    }

    /// Sleeps until the given time, the end of the followed run, or shutdown. Other commits do not wake the stream:
    /// most of them are about other runs, and each wake-up would delay the caller of the commit.
    pub(crate) async fn wait_to_batch(&mut self, until: Instant, execution: Option<ExecutionId>) {
        let ended = async { while matches!(self.ended_executions.recv().await, Ok(id) if execution != Some(id)) {} };
        tokio::select! {
            () = sleep_until(until) => {}
            () = ended => {}
            () = self.closing.cancelled() => {}
        }
    }
}

/// What woke a stream.
pub(crate) enum StreamSignal {
    /// A commit of this server.
    Commit(Arc<CommitNotice>),
    /// The store changed, or commits were missed.
    StoreChanged,
    /// The server is shutting down.
    Closed,
}
