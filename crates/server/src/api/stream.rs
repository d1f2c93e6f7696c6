//! The log of one run as it grows, as a stream of server-sent events.
//!
//! A commit of this server that directly follows the last sent event is sent from memory. Everything else is read from the
//! store; notifications only trigger the read, so a stream misses nothing, whichever server wrote it. All streams of a run
//! share the rendered messages. A slow client delays only its own reads: a stream holds one page, or the commits that the
//! server still has in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use serde::Deserialize;
use store::ExecutionRow;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::api::access::{Authorized, View};
use crate::api::change_waiter::{ChangeWaiter, StreamSignal, reserve_stream};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::{ExecutionPath, QueryParams};
use crate::api::rendered_events::{EventPages, PAGE, RenderedEvents};
use crate::api::sse::{last_event_id, render_message, stream_messages};
use crate::api::state::ApiState;
use crate::{CommitNotice, Server};

/// Pause after events were sent, so that the next ones are sent together. Without it, a run of many short steps would
/// be sent step by step, which would slow it down.
const BATCH_DELAY: Duration = Duration::from_millis(5);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamParams {
    /// Only events after this `seq`; the `Last-Event-ID` header takes precedence.
    after_seq: Option<u64>,
}

/// Follow the event log of a run. The ID of each message is its `seq`; the stream ends with the run.
#[utoipa::path(get, path = "/api/executions/{id}/stream", tag = "runs",
    params(("id" = String, Path), StreamParams, ("last-event-id" = Option<u64>, Header)),
    responses((status = 200, description = "events as they happen", content_type = "text/event-stream", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn one(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    ExecutionPath(id): ExecutionPath,
    QueryParams(params): QueryParams<StreamParams>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let permit = reserve_stream(&api)?;
    let waiter = ChangeWaiter::new(&api);
    let row = find_row(&api, id).await?;
    let after = last_event_id(&headers)?.or(params.after_seq).unwrap_or(0);
    let follow = ExecutionFollower {
        waiter,
        _permit: permit,
        pages: Arc::clone(&api.event_pages),
        server: api.server,
        id,
        after: Seq(after),
        ready_events: VecDeque::new(),
        row: Some(row),
        is_caught_up: false,
        last_sent_at: None,
        is_ended: false,
    };
    let stream = unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((event, follow))
    });
    Ok(stream_messages(stream))
}

/// Follows one run.
struct ExecutionFollower {
    server: Server,
    waiter: ChangeWaiter,
    _permit: OwnedSemaphorePermit,
    id: ExecutionId,
    after: Seq,
    /// Messages to send, many in each entry.
    ready_events: VecDeque<Bytes>,
    pages: Arc<EventPages>,
    /// The run at the last check; `None` if the log was read after it.
    row: Option<ExecutionRow>,
    /// Whether the last read returned everything in the store.
    is_caught_up: bool,
    /// When events were last sent.
    last_sent_at: Option<Instant>,
    is_ended: bool,
}

impl ExecutionFollower {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Some(event);
            }
            if self.is_ended {
                return None;
            }
            if self.is_caught_up && !self.wait().await {
                return None;
            }
            if !self.ready_events.is_empty() {
                continue;
            }
            let store = &self.server.shared.store;
            // The status is read first: the log read after it contains everything up to the end.
            let row = match self.row.take() {
                Some(row) => row,
                None => store.execution(self.id).await.ok()??,
            };
            let page = self.pages.read(&**store, self.id, self.after, row.version);
            let page = page.await.ok()?;
            self.push_events(&page);
            self.is_caught_up = (page.len() as u64) < PAGE;
            if self.is_caught_up && row.status.is_terminal() {
                self.push_end();
            }
        }
    }

    /// Waits until there is something to send or to read; returns false when the server shuts down.
    async fn wait(&mut self) -> bool {
        if let Some(sent_at) = self.last_sent_at {
            self.waiter.wait_to_batch(sent_at + BATCH_DELAY, Some(self.id)).await;
        }
        while self.is_caught_up && !self.is_ended {
            let signal = if self.ready_events.is_empty() {
                self.waiter.wait_for_signal(&self.server, Some(self.id)).await
            } else if let Some(signal) = self.waiter.ready_signal(self.id) {
                signal
            } else {
                break;
            };
            match signal {
                StreamSignal::Closed if self.ready_events.is_empty() => return false,
                StreamSignal::Closed => break,
                StreamSignal::StoreChanged => self.is_caught_up = false,
                StreamSignal::Commit(commit) => self.apply_commit(&commit),
            }
        }
        self.last_sent_at = Some(Instant::now());
        true
    }

    /// Sends the events of a commit if they directly follow the last sent event; otherwise triggers a read of the
    /// store.
    fn apply_commit(&mut self, commit: &CommitNotice) {
        let Some(last) = commit.events.last().map(|event| event.seq) else {
            return;
        };
        let is_last = commit.status.is_terminal();
        if last <= self.after {
            // The events were already read from the store, maybe before the run was known to have ended.
            if last == self.after && is_last {
                self.push_end();
            }
            return;
        }
        let follows = |event: &Event| event.seq == self.after.next();
        if !commit.events.first().is_some_and(follows) {
            self.is_caught_up = false;
            return;
        }
        let rendered = commit.rendered.get_or_init(|| RenderedEvents::render(&commit.events));
        self.push_events(rendered);
        if is_last {
            self.push_end();
        }
    }

    /// Sends the final message.
    fn push_end(&mut self) {
        self.is_ended = true;
        self.ready_events.push_back(render_message(None, "end", "{}"));
    }

    fn push_events(&mut self, rendered: &RenderedEvents) {
        if let Some((last, messages)) = rendered.after(self.after) {
            self.after = last;
            self.ready_events.push_back(messages);
        }
    }
}
