//! Listening to a run on a server: its events as they happen, through every break of the line.

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

/// The server says something every ten seconds; a line that is silent for longer is dead.
const SILENCE_MAX: Duration = Duration::from_secs(25);
/// How long to wait before a lost server is tried again: at first, and at most.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(2);
/// So much news waits for someone to take it.
const WAITING: usize = 64;

/// Hears a run. What is heard comes through a channel, so that nothing is lost when the hearer turns away.
pub(super) struct Listen {
    heard: mpsc::Receiver<Result<News, Problem>>,
    task: JoinHandle<()>,
}

impl Listen {
    /// Hears of events after this one.
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

/// Why a line ended.
enum Cut {
    /// The run has ended, or nobody hears any more.
    Over,
    /// The server went away.
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
                let said = format!("lost {servers}; the run goes on there, trying again");
                self.tell(Ok(News::Said(said))).await;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    /// Hears one line to its end.
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
        // Nobody hears any more when this fails, and the loop above finds that out.
        let _ = self.sender.send(news).await;
    }
}

/// An event as the server shows it.
pub(super) fn read(text: &str) -> Result<Event, Problem> {
    wire::read_shown(text).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        Problem::new(Exit::Unreachable, "ANSWER_INVALID", message)
            .help("the server may be newer than this client: `noetl --version`")
    })
}
