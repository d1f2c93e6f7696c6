//! The runs that match filters as they change, as a stream of server-sent events.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use model::id::{ExecutionId, Seq};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::api::access::{Authorized, View};
use crate::api::change_waiter::reserve_stream;
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::execution_lists::ExecutionParams;
use crate::api::extract::QueryParams;
use crate::api::run_lists::{RunListSnapshot, SnapshotReceiver};
use crate::api::sse::{last_event_id, render_message, stream_messages};
use crate::api::state::ApiState;

/// Follow the runs that match filters.
///
/// Starts with the latest 200 of them. Sends an `execution` message for each that starts or changes, and a `gone` message
/// with its `execution_id` for each that does not match any more. All streams with the same filter share one query per
/// change, at most ten per second.
#[utoipa::path(get, path = "/api/executions/stream", tag = "runs",
    params(ExecutionParams, ("last-event-id" = Option<u64>, Header)),
    responses((status = 200, description = "runs as they change", content_type = "text/event-stream", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn all(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<ExecutionParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let last = last_event_id(&headers)?;
    params.check_no_page()?;
    // Invalid filters are rejected before the stream starts.
    params.to_filter(&api).await?;
    let permit = reserve_stream(&api)?;
    let follower = RunListFollower {
        snapshots: api.run_lists.follow(&api, params),
        closing: api.closing.clone(),
        _permit: permit,
        has_started: false,
        sent_seqs: HashMap::new(),
        last_event_id: last.unwrap_or(0),
        ready_events: VecDeque::new(),
    };
    let stream = unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((event, follower))
    });
    Ok(stream_messages(stream))
}

/// Sends the changes between the states of a list. The ID of a message is the time in microseconds, by the store's clock, at
/// which the change was detected. After a reconnect, all covered runs are sent again. A slow client skips states.
struct RunListFollower {
    snapshots: SnapshotReceiver,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
    /// Whether the first state was sent.
    has_started: bool,
    sent_seqs: HashMap<ExecutionId, Seq>,
    last_event_id: u64,
    ready_events: VecDeque<Bytes>,
}

impl RunListFollower {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Some(event);
            }
            let is_first_ready = !self.has_started && self.snapshots.borrow().is_some();
            if !is_first_ready {
                tokio::select! {
                    biased;
                    () = self.closing.cancelled() => return None,
                    changed = self.snapshots.changed() => changed.ok()?,
                }
            }
            let snapshot = self.snapshots.borrow_and_update().as_ref().map(Arc::clone);
            if let Some(snapshot) = snapshot {
                self.has_started = true;
                self.push_changes(&snapshot);
            }
        }
    }

    fn push_changes(&mut self, snapshot: &RunListSnapshot) {
        self.last_event_id = snapshot.read_at.max(self.last_event_id + 1);
        let id = self.last_event_id.to_string();
        self.push_gone(snapshot, &id);
        for run in snapshot.runs.iter().rev() {
            if self.sent_seqs.insert(run.id, run.seq) != Some(run.seq) {
                self.ready_events
                    .push_back(render_message(Some(&id), "execution", &run.summary));
            }
        }
    }

    /// Sends which runs do not match any more. Runs that are older than the covered ones are not followed any more.
    fn push_gone(&mut self, snapshot: &RunListSnapshot, event_id: &str) {
        let oldest = snapshot.runs.last().map(|run| run.id).filter(|_| snapshot.is_full);
        let covered: HashSet<ExecutionId> = snapshot.runs.iter().map(|run| run.id).collect();
        let missing = self.sent_seqs.keys().filter(|id| !covered.contains(id)).copied();
        let missing: Vec<ExecutionId> = missing.collect();
        for id in missing {
            self.sent_seqs.remove(&id);
            if oldest.is_none_or(|oldest| id > oldest) {
                let data = serde_json::json!({ "execution_id": id }).to_string();
                self.ready_events
                    .push_back(render_message(Some(event_id), "gone", &data));
            }
        }
    }
}
