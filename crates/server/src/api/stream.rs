//! Streams of server-sent events: the log of one run as it grows, and the status changes of all runs.
//!
//! A commit of this server that directly follows the last sent event is sent from memory. Everything else is read from
//! the store; notifications only trigger the read, so a stream misses nothing, whichever server wrote it.

use std::collections::VecDeque;
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
use store::Filter;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use utoipa::IntoParams;

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, Failures};
use crate::api::executions::{row, shown};
use crate::api::extract::{Id, Params};
use crate::api::state::Api;
use crate::{Published, Server};

/// Interval of keep-alive messages.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Pause after events were sent, so that the next ones are sent together. Without it, a run of many short steps would
/// be sent step by step, which would slow it down.
const GATHER: Duration = Duration::from_millis(5);
/// The same pause for a stream of all runs, which reads their status.
const GATHER_ALL: Duration = Duration::from_millis(100);
/// Page size of events.
const PAGE: usize = 500;
/// How many of the latest runs a stream of all runs covers.
const FOLLOWED: usize = 200;

type Events = Sse<
    axum::response::sse::KeepAliveStream<
        std::pin::Pin<Box<dyn Stream<Item = Result<SseEvent, Infallible>> + Send>>,
    >,
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
    responses((status = 200, description = "events as they happen", content_type = "text/event-stream", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn one(
    State(api): State<Api>,
    _may: Authorized<View>,
    Id(id): Id,
    Params(params): Params<StreamParams>,
    headers: HeaderMap,
) -> Result<Events, ApiError> {
    let waiting = Waiting::new(&api)?;
    let has_ended = row(&api, id).await?.status.is_terminal();
    let after = last_event_id(&headers)?.or(params.after_seq).unwrap_or(0);
    let follow = Follow {
        waiting,
        server: api.server,
        id,
        after: Seq(after),
        ready: VecDeque::new(),
        has_ended: Some(has_ended),
        has_looked: false,
        told: None,
        is_over: false,
    };
    let stream = unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    });
    Ok(sse(Box::pin(stream)))
}

fn sse(
    stream: std::pin::Pin<Box<dyn Stream<Item = Result<SseEvent, Infallible>> + Send>>,
) -> Events {
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
struct Waiting {
    published: Receiver<Arc<Published>>,
    ended: Receiver<ExecutionId>,
    changes: store::ChangeWatch,
    closing: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Waiting {
    fn new(api: &Api) -> Result<Self, ApiError> {
        let place = Arc::clone(&api.streams).try_acquire_owned();
        let place = place.map_err(|_| {
            let status = StatusCode::SERVICE_UNAVAILABLE;
            let detail = "too many open streams on this server";
            ApiError::new(status, "TOO_MANY_STREAMS", detail)
                .remedy("close unused streams, or read pages: GET /api/executions/{id}/events")
        })?;
        Ok(Self {
            published: api.server.watch(),
            ended: api.server.shared.ended.subscribe(),
            changes: store::ChangeWatch::default(),
            closing: api.closing.clone(),
            _place: place,
        })
    }

    /// Waits for a change of one run, or of any run.
    async fn news(&mut self, server: &Server, of: Option<ExecutionId>) -> News {
        loop {
            tokio::select! {
                biased;
                published = self.published.recv() => match published {
                    Ok(news) if of.is_none_or(|id| news.execution == id) => return News::Commit(news),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return News::Some,
                    Err(RecvError::Closed) => return News::Over,
                },
                () = self.changes.changed(&*server.shared.store) => return News::Some,
                () = self.closing.cancelled() => return News::Over,
            }
        }
    }

    /// Returns a pending change of a run without waiting.
    fn news_now(&mut self, of: ExecutionId) -> Option<News> {
        loop {
            match self.published.try_recv() {
                Ok(news) if news.execution == of => return Some(News::Commit(news)),
                Ok(_) => {}
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Lagged(_)) => return Some(News::Some),
                Err(TryRecvError::Closed) => return Some(News::Over),
            }
        }
    }

    /// Skips pending commits: the following read of the store covers them.
    fn skip(&mut self) {
        self.published = self.published.resubscribe();
    }

    /// Sleeps until the given time, the end of the followed run, or shutdown. Other commits do not wake the stream:
    /// most of them are about other runs, and each wake-up would delay the caller of the commit.
    async fn rest(&mut self, until: Instant, of: Option<ExecutionId>) {
        let ended = async { while matches!(self.ended.recv().await, Ok(id) if of != Some(id)) {} };
        tokio::select! {
            () = sleep_until(until) => {}
            () = ended => {}
            () = self.closing.cancelled() => {}
        }
    }
}

/// What woke a stream.
enum News {
    /// A commit of this server.
    Commit(Arc<Published>),
    /// The store changed, or commits were missed.
    Some,
    /// The server is shutting down.
    Over,
}

/// Follows one run.
struct Follow {
    server: Server,
    waiting: Waiting,
    id: ExecutionId,
    after: Seq,
    ready: VecDeque<SseEvent>,
    /// Whether the run had ended at the last check; `None` if the log was read after it.
    has_ended: Option<bool>,
    /// Whether the last read returned everything in the store.
    has_looked: bool,
    /// When events were last sent.
    told: Option<Instant>,
    is_over: bool,
}

impl Follow {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.is_over {
                return None;
            }
            if self.has_looked && !self.wait().await {
                return None;
            }
            if !self.ready.is_empty() {
                continue;
            }
            let store = &self.server.shared.store;
            // The status is read first: the log read after it contains everything up to the end.
            let has_ended = match self.has_ended.take() {
                Some(known) => known,
                None => store.execution(self.id).await.ok()??.status.is_terminal(),
            };
            let events = store.events(self.id, self.after, PAGE).await.ok()?;
            for event in &events {
                self.tell(event);
            }
            self.has_looked = events.len() < PAGE;
            if self.has_looked && has_ended {
                self.end();
            }
        }
    }

    /// Waits until there is something to send or to read; returns false when the server shuts down.
    async fn wait(&mut self) -> bool {
        if let Some(told) = self.told {
            self.waiting.rest(told + GATHER, Some(self.id)).await;
        }
        while self.has_looked && !self.is_over {
            let news = if self.ready.is_empty() {
                self.waiting.news(&self.server, Some(self.id)).await
            } else if let Some(news) = self.waiting.news_now(self.id) {
                news
            } else {
                break;
            };
            match news {
                News::Over if self.ready.is_empty() => return false,
                News::Over => break,
                News::Some => self.has_looked = false,
                News::Commit(commit) => self.hear(&commit),
            }
        }
        self.told = Some(Instant::now());
        true
    }

    /// Sends the events of a commit if they directly follow the last sent event; otherwise triggers a read of the
    /// store.
    fn hear(&mut self, commit: &Published) {
        let Some(last) = commit.events.last().map(|event| event.seq) else {
            return;
        };
        let is_last = commit.status.is_terminal();
        if last <= self.after {
            // The events were already read from the store, maybe before the run was known to have ended.
            if last == self.after && is_last {
                self.end();
            }
            return;
        }
        let follows = |event: &Event| event.seq == self.after.next();
        if !commit.events.first().is_some_and(follows) {
            self.has_looked = false;
            return;
        }
        for event in &commit.events {
            self.tell(event);
        }
        if is_last {
            self.end();
        }
    }

    /// Sends the final message.
    fn end(&mut self) {
        self.is_over = true;
        let end = SseEvent::default().event("end").data("{}");
        self.ready.push_back(end);
    }

    fn tell(&mut self, event: &Event) {
        self.after = event.seq;
        let text = event.to_raw();
        let shown = SseEvent::default().id(event.seq.to_string());
        self.ready
            .push_back(shown.event(event.kind().name()).data(text.text()));
    }
}

/// Follow all runs: one message per status change; starts with the latest runs.
#[utoipa::path(get, path = "/api/executions/stream", tag = "runs",
    params(("last-event-id" = Option<u64>, Header)),
    responses((status = 200, description = "runs as they change", content_type = "text/event-stream", body = String), Failures),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn all(
    State(api): State<Api>,
    _may: Authorized<View>,
    headers: HeaderMap,
) -> Result<Events, ApiError> {
    let last = last_event_id(&headers)?;
    let follow = FollowAll {
        waiting: Waiting::new(&api)?,
        server: api.server,
        known: std::collections::HashMap::new(),
        last: last.unwrap_or(0),
        ready: VecDeque::new(),
        looked: None,
    };
    let stream = unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((Ok(event), follow))
    });
    Ok(sse(Box::pin(stream)))
}

/// Follows all runs. The ID of a message is the time in microseconds, by the store's clock, at which the change was
/// detected. After a reconnect, all covered runs are sent again.
struct FollowAll {
    server: Server,
    waiting: Waiting,
    known: std::collections::HashMap<ExecutionId, Seq>,
    last: u64,
    ready: VecDeque<SseEvent>,
    /// When the runs were last read.
    looked: Option<Instant>,
}

impl FollowAll {
    async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if let Some(looked) = self.looked {
                self.waiting.rest(looked + GATHER_ALL, None).await;
                if matches!(self.waiting.news(&self.server, None).await, News::Over) {
                    return None;
                }
            }
            self.waiting.skip();
            self.look().await?;
            self.looked = Some(Instant::now());
        }
    }

    async fn look(&mut self) -> Option<()> {
        let store = self.server.shared.store.clone();
        let filter = Filter {
            limit: FOLLOWED,
            ..Filter::default()
        };
        let rows = store.executions(&filter).await.ok()?;
        self.known
            .retain(|id, _| rows.iter().any(|row| row.id == *id));
        let now = u64::try_from(store.now().0).unwrap_or(0).max(self.last + 1);
        self.last = now;
        for row in rows.into_iter().rev() {
            if self.known.insert(row.id, row.version) == Some(row.version) {
                continue;
            }
            let text = serde_json::to_string(&shown(row)).unwrap_or_default();
            let event = SseEvent::default().id(now.to_string()).event("execution");
            self.ready.push_back(event.data(text));
        }
        Some(())
    }
}
