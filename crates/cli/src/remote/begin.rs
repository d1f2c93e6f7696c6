//! Starts or continues a run on a server and follows it.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;
use results::Pieces;
use serde::de::DeserializeOwned;
use serde_json::json;
use server::{Control, ResultAddress};
use store::ExecutionRow;
use wire::api::{
    CancelRequest, EventPage, ExecuteRequest, Execution, FinalizeRequest, NoteRequest,
    RetryRequest, Started,
};
use wire::{CallError, Client};

use crate::clock;
use crate::problem::Problem;
use crate::remote::elsewhere::if_found;
use crate::remote::listen::{Listen, read};
use crate::remote::paths::{self, encode};
use crate::remote::refusal;
use crate::remote::token::unanswered;
use crate::remote::unwrap::unwrapped;
use crate::runs::{Begin, Driven, News, Watch};

/// Number of events that are read at once.
const PAGE: usize = 1_000;
/// How long requests are retried while the server is unreachable.
const PATIENCE: Duration = Duration::from_secs(60);
/// Delay before a retry.
const AGAIN: Duration = Duration::from_millis(250);

/// A run on a server.
pub(super) struct DrivenElsewhere<'a> {
    client: &'a Client,
    id: ExecutionId,
    since: Time,
    is_mine: bool,
    listen: Option<Listen>,
}

/// Starts or continues a run.
pub(super) async fn begin(client: &Client, begin: Begin) -> Result<DrivenElsewhere<'_>, Problem> {
    let mut driven = DrivenElsewhere {
        client,
        id: ExecutionId(0),
        since: Time::default(),
        is_mine: true,
        listen: None,
    };
    match begin {
        Begin::Text {
            name,
            text,
            payload,
        } => {
            let request = ExecuteRequest {
                playbook: Some(text.clone()),
                ..execute(client, payload)
            };
            let started = start(client, &request).await;
            driven.id = started.map_err(|error| refusal::of_text(&error, &name, &text))?;
        }
        Begin::Catalog {
            path,
            version,
            payload,
        } => {
            let request = ExecuteRequest {
                path: Some(path),
                version,
                ..execute(client, payload)
            };
            driven.id = start(client, &request)
                .await
                .map_err(|error| unanswered(&error))?;
        }
        Begin::Resume(row) if row.status == RunStatus::Running => {
            driven.id = row.id;
            driven.since = clock::now();
            driven.is_mine = false;
        }
        Begin::Resume(row) => again(&mut driven, row, Control::Resume).await?,
        Begin::Retry(row, version) => again(&mut driven, row, Control::Retry { version }).await?,
        Begin::Rerun(row, request) => {
            let path = paths::run(row.id, "/rerun");
            let started: Result<Started, CallError> = client.post(&path, &request).await;
            driven.id = started.map_err(|error| unanswered(&error))?.execution_id;
        }
    }
    Ok(driven)
}

/// Builds the request for a run. With several servers it has a deduplication key, so that failover starts only one run.
fn execute(client: &Client, payload: Option<Raw>) -> ExecuteRequest {
    let word = || format!("cli-{:032x}", rand::random::<u128>());
    ExecuteRequest {
        payload,
        dedup: (client.servers().len() > 1).then(word),
        ..ExecuteRequest::default()
    }
}

async fn start(client: &Client, request: &ExecuteRequest) -> Result<ExecutionId, CallError> {
    let started: Started = client.post("/api/execute", request).await?;
    Ok(started.execution_id)
}

/// Resumes or retries a run. When this returns, the server has accepted the request; the event may follow later.
async fn again(
    driven: &mut DrivenElsewhere<'_>,
    row: ExecutionRow,
    word: Control,
) -> Result<(), Problem> {
    let client = driven.client;
    driven.id = row.id;
    driven.since = row.finished_at.unwrap_or_else(clock::now);
    let is_resume = matches!(word, Control::Resume);
    let Err(mut problem) = say(client, row.id, word).await else {
        return Ok(());
    };
    // Another client resumed the paused run first; this process follows it.
    if is_resume && matches!(&*problem.code, "NOT_PAUSED" | "EXECUTION_ENDED") {
        return Ok(());
    }
    let status = row.status.name().to_ascii_lowercase();
    problem.message = format!("run {}: {}", row.id, problem.message);
    Err(problem.help(format!("the run is {status}; see `noetl show {}`", row.id)))
}

/// Sends a control request to a run and returns its state.
pub(super) async fn say(
    client: &Client,
    id: ExecutionId,
    word: Control,
) -> Result<Execution, Problem> {
    let (path, body) = match word {
        Control::Cancel { reason, cascade } => (
            "/cancel".to_owned(),
            json!(CancelRequest { reason, cascade }),
        ),
        Control::Pause { reason } => ("/pause".to_owned(), json!(NoteRequest { reason })),
        Control::Resume => ("/resume".to_owned(), json!(NoteRequest::default())),
        Control::Retry { version } => ("/retry".to_owned(), json!(RetryRequest { version })),
        Control::Finalize { ending, reason } => {
            let status = ending;
            (
                "/finalize".to_owned(),
                json!(FinalizeRequest { status, reason }),
            )
        }
        Control::Signal { name, payload } => {
            let path = format!("/signal/{}", encode(name.as_str()));
            (path, json!(payload))
        }
        Control::Patch(variables) => {
            let path = format!("/api/vars/{id}");
            let body = json!({ "variables": variables });
            let said = client.post(&path, &body).await;
            return said.map_err(|error| unanswered(&error));
        }
    };
    let said = client.post(&paths::run(id, &path), &body).await;
    said.map_err(|error| unanswered(&error))
}

impl DrivenElsewhere<'_> {
    /// Sends a GET request; retries for up to `PATIENCE`, because a server may be restarting.
    async fn patiently<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.client.get(path).await {
                Ok(answer) => return Ok(answer),
                Err(error) if error.is_passing() && tokio::time::Instant::now() < until => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(unanswered(&error)),
            }
        }
    }
}

#[async_trait]
impl Watch for DrivenElsewhere<'_> {
    async fn news(&mut self) -> Result<News, Problem> {
        match &mut self.listen {
            Some(listen) => listen.news().await,
            None => Ok(News::Unread),
        }
    }
}

#[async_trait]
impl Driven for DrivenElsewhere<'_> {
    fn id(&self) -> ExecutionId {
        self.id
    }

    fn since(&self) -> Time {
        self.since
    }

    fn is_mine(&self) -> bool {
        self.is_mine
    }

    fn farewell(&self) -> String {
        "stopped waiting; the server completes the cancellation".to_owned()
    }

    fn elsewhere(&self) -> &'static str {
        "on the server"
    }

    fn follow(&mut self, after: Seq) {
        self.listen = Some(Listen::begin(self.client, self.id, after));
    }

    /// Does nothing: the server drives the run.
    async fn look(&mut self) -> Result<(), Problem> {
        Ok(())
    }

    async fn events(&self, after: Seq) -> Result<Vec<Event>, Problem> {
        let path = paths::events(self.id, after, PAGE);
        let page: EventPage = self.patiently(&path).await?;
        page.events.iter().map(|shown| read(shown.text())).collect()
    }

    async fn result(&self, address: &ResultAddress) -> Result<Option<Pieces>, Problem> {
        let path = paths::result(self.id, address);
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            match self.client.read(&path).await {
                Err(error) if error.is_passing() && tokio::time::Instant::now() < until => {
                    tokio::time::sleep(AGAIN).await;
                }
                answer => return Ok(if_found(answer)?.map(unwrapped)),
            }
        }
    }

    async fn cancel(&self) -> Result<(), Problem> {
        let word = Control::Cancel {
            reason: Some("interrupted".to_owned()),
            cascade: true,
        };
        match say(self.client, self.id, word).await {
            // `EXECUTION_ENDED` means that the run has just ended.
            Err(problem) if problem.code != "EXECUTION_ENDED" => Err(problem),
            _ => Ok(()),
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Problem> {
        Ok(())
    }

    async fn stop(self: Box<Self>) {}
}
