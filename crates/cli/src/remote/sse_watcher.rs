//! Follows the event stream of a run on a server, and reconnects when the connection breaks.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::Client;

use crate::cli_error::{CliError, Exit};
use crate::remote::sse::SseParser;
use crate::runs::{RunUpdate, RunWatcher};

/// Maximum time without data; the server sends a keep-alive every ten seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(25);
/// Delay before a reconnect: initial and maximum.
const RETRY_DELAY: Duration = Duration::from_millis(100);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);
/// Capacity of the channel of updates.
const CHANNEL_CAPACITY: usize = 64;

/// Follows a run's event stream in a task. Updates go through a channel, so a cancelled `recv` loses none.
pub(super) struct SseWatcher {
    updates: mpsc::Receiver<Result<RunUpdate, CliError>>,
    task: JoinHandle<()>,
}

impl SseWatcher {
    /// Starts following the events after this one.
    pub(super) fn start(client: &Client, id: ExecutionId, after: Seq) -> Self {
        let (sender, updates) = mpsc::channel(CHANNEL_CAPACITY);
        let listener = SseListener {
            client: client.clone(),
            id,
            after,
            sender,
        };
        Self {
            updates,
            task: tokio::spawn(listener.run()),
        }
    }
}

impl Drop for SseWatcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl RunWatcher for SseWatcher {
    async fn next_update(&mut self) -> Result<RunUpdate, CliError> {
        self.updates.recv().await.unwrap_or(Ok(RunUpdate::Closed))
    }
}

struct SseListener {
    client: Client,
    id: ExecutionId,
    after: Seq,
    sender: mpsc::Sender<Result<RunUpdate, CliError>>,
}

/// Why a stream ended.
enum StreamEnd {
    /// The run has ended, or the receiver was dropped.
    Finished,
    /// The connection was lost.
    ConnectionLost,
}

impl SseListener {
    async fn run(mut self) {
        let path = format!("/api/executions/{}/stream", self.id);
        let mut pause = RETRY_DELAY;
        let mut has_notified = false;
        loop {
            let last = (self.after > Seq(0)).then_some(self.after.0);
            match self.client.open_event_stream(&path, last).await {
                Ok(response) => {
                    let before = self.after;
                    match self.read_stream(response).await {
                        Ok(StreamEnd::Finished) => return,
                        Ok(StreamEnd::ConnectionLost) => {}
                        Err(problem) => return self.send_update(Err(problem)).await,
                    }
                    if self.after > before {
                        pause = RETRY_DELAY;
                    }
                }
                Err(error) if error.is_transient() => {}
                Err(error) => return self.send_update(Err(error.into())).await,
            }
            if !std::mem::replace(&mut has_notified, true) {
                let servers = self.client.servers().join(", ");
                let notice = format!("lost connection to {servers}; the run continues there; reconnecting");
                self.send_update(Ok(RunUpdate::Notice(notice))).await;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_DELAY_MAX);
        }
    }

    /// Reads one stream to its end.
    async fn read_stream(&mut self, mut response: wire::HttpResponse) -> Result<StreamEnd, CliError> {
        let mut stream = SseParser::default();
        loop {
            let chunk = tokio::time::timeout(IDLE_TIMEOUT, response.chunk()).await;
            let Ok(Ok(Some(bytes))) = chunk else {
                return Ok(StreamEnd::ConnectionLost);
            };
            let mut events = Vec::new();
            let mut is_over = false;
            for message in stream.push(&bytes) {
                if message.event == "end" {
                    is_over = true;
                } else {
                    events.push(parse_event(&message.data)?);
                }
            }
            if let Some(last) = events.last() {
                self.after = last.seq;
                self.send_update(Ok(RunUpdate::Events(events))).await;
            }
            if is_over {
                self.send_update(Ok(RunUpdate::Closed)).await;
            }
            if is_over || self.sender.is_closed() {
                return Ok(StreamEnd::Finished);
            }
        }
    }

    async fn send_update(&self, update: Result<RunUpdate, CliError>) {
        // This fails if the receiver was dropped; `read_stream` checks for that.
        let _ = self.sender.send(update).await;
    }
}

/// Parses an event of the API.
pub(super) fn parse_event(text: &str) -> Result<Event, CliError> {
    wire::parse_event_json(text).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        CliError::new(Exit::Unreachable, "ANSWER_INVALID", message)
            .help("the server may be newer than this client; check with `noetl --version`")
    })
}
