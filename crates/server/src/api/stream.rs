//! The log of one run as it grows, as a stream of server-sent events.
//!
//! A commit of this server that directly follows the last sent event is sent from memory; its events are rendered once for
//! all streams. Everything else is read from the store; notifications only trigger the read, so a stream misses nothing,
//! whichever server wrote it. A slow client delays only its own reads: a stream holds the events of one page or of the
//! commits that the server still has in memory.

use std::collections::VecDeque;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::unfold;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::api::access::{Authorized, View};
use crate::api::change_waiter::{ChangeWaiter, StreamSignal, reserve_stream};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::find_row;
use crate::api::extract::{ExecutionPath, QueryParams};
use crate::api::sse::{last_event_id, render_message, stream_messages};
use crate::api::state::ApiState;
use crate::{CommitNotice, Server};

/// Pause after events were sent, so that the next ones are sent together. Without it, a run of many short steps would
/// be sent step by step, which would slow it down.
const BATCH_DELAY: Duration = Duration::from_millis(5);
/// Page size of events.
const PAGE: usize = 500;

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
    let has_ended = find_row(&api, id).await?.status.is_terminal();
    let after = last_event_id(&headers)?.or(params.after_seq).unwrap_or(0);
    let follow = ExecutionFollower {
        waiter,
        _permit: permit,
        server: api.server,
        id,
        after: Seq(after),
        ready_events: VecDeque::new(),
        has_ended: Some(has_ended),
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

/// The message of an event.
fn render_event(event: &Event) -> Bytes {
    let seq = event.seq.to_string();
    render_message(Some(&seq), event.kind().name(), event.to_raw().text())
}

impl CommitNotice {
    /// The messages of the committed events, in order.
    fn messages(&self) -> &[Bytes] {
        self.frames
            .get_or_init(|| self.events.iter().map(render_event).collect())
    }
}

/// Follows one run.
struct ExecutionFollower {
    server: Server,
    waiter: ChangeWaiter,
    _permit: OwnedSemaphorePermit,
    id: ExecutionId,
    after: Seq,
    ready_events: VecDeque<Bytes>,
    /// Whether the run had ended at the last check; `None` if the log was read after it.
    has_ended: Option<bool>,
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
            let has_ended = match self.has_ended.take() {
                Some(signal) => signal,
                None => store.execution(self.id).await.ok()??.status.is_terminal(),
            };
            let events = store.events(self.id, self.after, PAGE).await.ok()?;
            for event in &events {
                self.push_event(event.seq, render_event(event));
            }
            self.is_caught_up = events.len() < PAGE;
            if self.is_caught_up && has_ended {
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
        for (event, message) in commit.events.iter().zip(commit.messages()) {
            self.push_event(event.seq, message.clone());
        }
        if is_last {
            self.push_end();
        }
    }

    /// Sends the final message.
    fn push_end(&mut self) {
        self.is_ended = true;
        self.ready_events.push_back(render_message(None, "end", "{}"));
    }

    fn push_event(&mut self, seq: Seq, message: Bytes) {
        self.after = seq;
        self.ready_events.push_back(message);
    }
}
