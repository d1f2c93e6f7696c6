//! Streams of server-sent events: the log of one run as it grows, and the status changes of all runs.
//!
//! A commit of this server that directly follows the last sent event is sent from memory. Everything else is read from
//! the store; notifications only trigger the read, so a stream misses nothing, whichever server wrote it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures_util::Stream;
use futures_util::stream::unfold;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use serde::Deserialize;
use store::{ExecutionFilter, ExecutionRow};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::execution_lists::ExecutionParams;
use crate::api::executions::{find_row, summarize_all};
use crate::api::extract::{ExecutionPath, QueryParams};
use crate::api::state::ApiState;
use crate::{CommitNotice, Server};

/// Interval of keep-alive messages.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Pause after events were sent, so that the next ones are sent together. Without it, a run of many short steps would
/// be sent step by step, which would slow it down.
const BATCH_DELAY: Duration = Duration::from_millis(5);
/// The same pause for a stream of all runs, which reads their status.
const BATCH_DELAY_ALL: Duration = Duration::from_millis(100);
/// Page size of events.
const PAGE: usize = 500;
/// How long a stream of all runs uses a filter: a `*` in it may select playbooks that are registered later, and a
/// duration ends now.
const FILTER_AGE_MAX: Duration = Duration::from_secs(5);
/// How many of the latest runs a stream of all runs covers.
const FOLLOWED_EXECUTIONS_MAX: usize = 200;

type SseResponse = Sse<
    axum::response::sse::KeepAliveStream<std::pin::Pin<Box<dyn Stream<Item = Result<SseEvent, Infallible>> + Send>>>,
>;

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
) -> Result<SseResponse, ApiError> {
    let waiter = ChangeWaiter::new(&api)?;
    let has_ended = find_row(&api, id).await?.status.is_terminal();
    let after = last_event_id(&headers)?.or(params.after_seq).unwrap_or(0);
    let follow = ExecutionFollower {
        waiter,
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
        Some((Ok(event), follow))
    });
    Ok(sse(Box::pin(stream)))
}

fn sse(stream: std::pin::Pin<Box<dyn Stream<Item = Result<SseEvent, Infallible>> + Send>>) -> SseResponse {
    Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or_else(|| {
        let detail = "invalid `Last-Event-ID`: expected the ID of a message of this stream";
        ApiError::invalid("LAST_EVENT_ID_INVALID", detail)
    })
}

/// Waits for changes: a commit of this server, or a change of the store by another process.
struct ChangeWaiter {
    commits: Receiver<Arc<CommitNotice>>,
    ended_executions: Receiver<ExecutionId>,
    changes: store::ChangeWatch,
    closing: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl ChangeWaiter {
    fn new(api: &ApiState) -> Result<Self, ApiError> {
        let permit = Arc::clone(&api.streams).try_acquire_owned();
        let permit = permit.map_err(|_| {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let detail = "too many open streams on this server";
            ApiError::new(status, "TOO_MANY_STREAMS", detail)
                .with_remedy("close unused streams, or read pages: GET /api/executions/{id}/events")
        })?;
        Ok(Self {
            commits: api.server.subscribe_commits(),
            ended_executions: api.server.shared.ended_executions.subscribe(),
            changes: store::ChangeWatch::default(),
            closing: api.closing.clone(),
            _permit: permit,
        })
    }

    /// Waits for a change of one run, or of any run.
    async fn wait_for_signal(&mut self, server: &Server, execution: Option<ExecutionId>) -> StreamSignal {
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
    fn ready_signal(&mut self, execution: ExecutionId) -> Option<StreamSignal> {
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
    fn discard_pending(&mut self) {
        self.commits = self.commits.resubscribe();
    }

    /// Sleeps until the given time, the end of the followed run, or shutdown. Other commits do not wake the stream:
    /// most of them are about other runs, and each wake-up would delay the caller of the commit.
    async fn wait_to_batch(&mut self, until: Instant, execution: Option<ExecutionId>) {
        let ended = async { while matches!(self.ended_executions.recv().await, Ok(id) if execution != Some(id)) {} };
        tokio::select! {
            () = sleep_until(until) => {}
            () = ended => {}
            () = self.closing.cancelled() => {}
        }
    }
}

/// What woke a stream.
enum StreamSignal {
    /// A commit of this server.
    Commit(Arc<CommitNotice>),
    /// The store changed, or commits were missed.
    StoreChanged,
    /// The server is shutting down.
    Closed,
}

/// Follows one run.
struct ExecutionFollower {
    server: Server,
    waiter: ChangeWaiter,
    id: ExecutionId,
    after: Seq,
    ready_events: VecDeque<SseEvent>,
    /// Whether the run had ended at the last check; `None` if the log was read after it.
    has_ended: Option<bool>,
    /// Whether the last read returned everything in the store.
    is_caught_up: bool,
    /// When events were last sent.
    last_sent_at: Option<Instant>,
    is_ended: bool,
}

impl ExecutionFollower {
    async fn next(&mut self) -> Option<SseEvent> {
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
                self.push_event(event);
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
        for event in &commit.events {
            self.push_event(event);
        }
        if is_last {
            self.push_end();
        }
    }

    /// Sends the final message.
    fn push_end(&mut self) {
        self.is_ended = true;
        let end = SseEvent::default().event("end").data("{}");
        self.ready_events.push_back(end);
    }

    fn push_event(&mut self, event: &Event) {
        self.after = event.seq;
        let text = event.to_raw();
        let sse_event = SseEvent::default().id(event.seq.to_string());
        self.ready_events
            .push_back(sse_event.event(event.kind().name()).data(text.text()));
    }
}

/// Follow the runs that match filters.
///
/// Starts with the latest 200 of them. Sends an `execution` message for each that starts or changes, and a `gone` message
/// with its `execution_id` for each that does not match any more.
#[utoipa::path(get, path = "/api/executions/stream", tag = "runs",
    params(ExecutionParams, ("last-event-id" = Option<u64>, Header)),
    responses((status = 200, description = "runs as they change", content_type = "text/event-stream", body = String), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn all(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<ExecutionParams>,
    headers: HeaderMap,
) -> Result<SseResponse, ApiError> {
    let last = last_event_id(&headers)?;
    params.check_no_page()?;
    let filter = params.to_filter(&api).await?;
    let follow = AllExecutionsFollower {
        waiter: ChangeWaiter::new(&api)?,
        server: api.server.clone(),
        api,
        params,
        filter,
        filtered_since: Instant::now(),
        sent_seqs: HashMap::new(),
        last_event_id: last.unwrap_or(0),
        ready_events: VecDeque::new(),
        polled_at: None,
    };
    let stream = unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    });
    Ok(sse(Box::pin(stream)))
}

/// Follows all runs. The ID of a message is the time in microseconds, by the store's clock, at which the change was
/// detected. After a reconnect, all covered runs are sent again.
struct AllExecutionsFollower {
    server: Server,
    api: ApiState,
    params: ExecutionParams,
    /// The filter that the parameters give; `None` if no playbook matches.
    filter: Option<ExecutionFilter>,
    /// When the filter was computed.
    filtered_since: Instant,
    waiter: ChangeWaiter,
    sent_seqs: HashMap<ExecutionId, Seq>,
    last_event_id: u64,
    ready_events: VecDeque<SseEvent>,
    /// When the runs were last read.
    polled_at: Option<Instant>,
}

impl AllExecutionsFollower {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                return Some(event);
            }
            if let Some(polled_at) = self.polled_at {
                self.waiter.wait_to_batch(polled_at + BATCH_DELAY_ALL, None).await;
                if matches!(
                    self.waiter.wait_for_signal(&self.server, None).await,
                    StreamSignal::Closed
                ) {
                    return None;
                }
            }
            self.waiter.discard_pending();
            self.poll().await?;
            self.polled_at = Some(Instant::now());
        }
    }

    async fn poll(&mut self) -> Option<()> {
        let store = self.server.shared.store.clone();
        if self.filtered_since.elapsed() >= FILTER_AGE_MAX {
            self.filter = self.params.to_filter(&self.api).await.ok()?;
            self.filtered_since = Instant::now();
        }
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
        let now = u64::try_from(store.now().0).unwrap_or(0).max(self.last_event_id + 1);
        self.last_event_id = now;
        self.push_gone(&rows);
        let changed = rows.into_iter().rev();
        let changed = changed.filter(|row| self.sent_seqs.insert(row.id, row.version) != Some(row.version));
        let changed: Vec<ExecutionRow> = changed.collect();
        for summary in summarize_all(&*store, changed).await.ok()? {
            let text = serde_json::to_string(&summary).unwrap_or_default();
            let event = SseEvent::default().id(now.to_string()).event("execution");
            self.ready_events.push_back(event.data(text));
        }
        Some(())
    }

    /// Sends which runs do not match any more. Runs that are older than the covered ones are not followed any more.
    fn push_gone(&mut self, rows: &[ExecutionRow]) {
        let is_full = rows.len() == FOLLOWED_EXECUTIONS_MAX;
        let oldest = rows.last().map(|row| row.id).filter(|_| is_full);
        let covered: HashSet<ExecutionId> = rows.iter().map(|row| row.id).collect();
        let missing = self.sent_seqs.keys().filter(|id| !covered.contains(id)).copied();
        let missing: Vec<ExecutionId> = missing.collect();
        for id in missing {
            self.sent_seqs.remove(&id);
            if oldest.is_none_or(|oldest| id > oldest) {
                let data = serde_json::json!({ "execution_id": id }).to_string();
                let event = SseEvent::default().id(self.last_event_id.to_string()).event("gone");
                self.ready_events.push_back(event.data(data));
            }
        }
    }
}
