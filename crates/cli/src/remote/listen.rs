//! Follows the event stream of a run on a server, and reconnects when the connection breaks.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use wire::Client;

use crate::problem::{Exit, Problem};
use crate::remote::sse::Stream;
use crate::remote::token::unanswered;
use crate::runs::{News, Watch};

/// Maximum time without data; the server sends a keep-alive every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(25);
/// Delay before a reconnect: initial and maximum.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// Capacity of the channel of updates.
const WAITING: usize = 64;

/// Follows a run's event stream in a task. Updates go through a channel, so a cancelled `recv` loses none.
pub(super) struct Listen {
    heard: mpsc::Receiver<Result<News, Problem>>,
    task: JoinHandle<()>,
}

impl Listen {
    /// Starts following the events after this one.
    pub(super) fn begin(client: &Client, id: ExecutionId, after: Seq) -> Self {
        let (sender, heard) = mpsc::channel(WAITING);
        let ear = Ear {
            client: client.clone(),
            id,
            after,
            sender,
        };
        Self {
            heard,
            task: tokio::spawn(ear.listen()),
        }
    }
}

impl Drop for Listen {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[async_trait]
impl Watch for Listen {
    async fn news(&mut self) -> Result<News, Problem> {
        self.heard.recv().await.unwrap_or(Ok(News::Over))
    }
}

struct Ear {
    client: Client,
    id: ExecutionId,
    after: Seq,
    sender: mpsc::Sender<Result<News, Problem>>,
}

/// Why a stream ended.
enum Cut {
    /// The run has ended, or the receiver was dropped.
    Over,
    /// The connection was lost.
    Lost,
}

impl Ear {
    async fn listen(mut self) {
        let path = format!("/api/executions/{}/stream", self.id);
        let mut pause = AGAIN;
        let mut has_told = false;
        loop {
            let last = (self.after > Seq(0)).then_some(self.after.0);
            match self.client.stream(&path, last).await {
                Ok(answer) => {
                    let before = self.after;
                    match self.hear(answer).await {
                        Ok(Cut::Over) => return,
                        Ok(Cut::Lost) => {}
                        Err(problem) => return self.tell(Err(problem)).await,
                    }
                    if self.after > before {
                        pause = AGAIN;
                    }
                }
                Err(error) if error.is_passing() => {}
                Err(error) => return self.tell(Err(unanswered(&error))).await,
            }
            if !std::mem::replace(&mut has_told, true) {
                let servers = self.client.servers().join(", ");
                let said =
                    format!("lost connection to {servers}; the run continues there; reconnecting");
                self.tell(Ok(News::Said(said))).await;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// Reads one stream to its end.
    async fn hear(&mut self, mut answer: wire::Answer) -> Result<Cut, Problem> {
        let mut stream = Stream::default();
        loop {
            let chunk = tokio::time::timeout(SILENCE_MAX, answer.chunk()).await;
            let Ok(Ok(Some(bytes))) = chunk else {
                return Ok(Cut::Lost);
            };
            let mut events = Vec::new();
            let mut is_over = false;
            for message in stream.push(&bytes) {
                if message.event == "end" {
                    is_over = true;
                } else {
                    events.push(read(&message.data)?);
                }
            }
            if let Some(last) = events.last() {
                self.after = last.seq;
                self.tell(Ok(News::Events(events))).await;
            }
            if is_over {
                self.tell(Ok(News::Over)).await;
            }
            if is_over || self.sender.is_closed() {
                return Ok(Cut::Over);
            }
        }
    }

    async fn tell(&self, news: Result<News, Problem>) {
        // This fails if the receiver was dropped; `hear` checks for that.
        let _ = self.sender.send(news).await;
    }
}

/// Parses an event of the API.
pub(super) fn read(text: &str) -> Result<Event, Problem> {
    wire::read_shown(text).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        Problem::new(Exit::Unreachable, "ANSWER_INVALID", message)
            .help("the server may be newer than this client; check with `noetl --version`")
    })
}
