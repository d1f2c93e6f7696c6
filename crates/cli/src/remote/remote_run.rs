//! Starts or continues a run on a server and follows it.

use std::time::Duration;

use async_trait::async_trait;
use engine::ControlRequest;
use model::event::{Event, StopRequest};
use model::id::{ExecutionId, Seq};
use model::labels::Labels;
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;
use results::ByteStream;
use serde::de::DeserializeOwned;
use serde_json::json;
use server::ResultAddress;
use store::ExecutionRow;
use wire::api::{
    CancelRequest, EventPage, ExecuteRequest, ExecuteResponse, ExecutionSummary, FinalizeRequest, ReasonRequest,
    RetryRequest,
};
use wire::{CallError, Client};

use crate::cli_error::CliError;
use crate::clock;
use crate::remote::paths::{self, encode_segment};
use crate::remote::playbook_error;
use crate::remote::remote_backend::none_if_missing;
use crate::remote::result_unwrapper::unwrap_result;
use crate::remote::sse_watcher::{SseWatcher, parse_event};
use crate::runs::{DrivenRun, RunUpdate, RunWatcher, StartRequest};

/// Number of events that are read at once.
const EVENTS_PAGE_MAX: usize = 1_000;
/// How long requests are retried while the server is unreachable.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Delay before a retry.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// A run on a server.
pub(super) struct RemoteRun<'a> {
    client: &'a Client,
    id: ExecutionId,
    ended_since: Time,
    is_owned: bool,
    watcher: Option<SseWatcher>,
}

/// Starts or continues a run.
pub(super) async fn start_run(client: &Client, start_request: StartRequest) -> Result<RemoteRun<'_>, CliError> {
    match start_request {
        StartRequest::Text {
            name,
            text,
            payload,
            labels,
        } => {
            let request = ExecuteRequest {
                playbook: Some(text.clone()),
                ..execute_request(client, payload, &labels)
            };
            let started = send_execute(client, &request).await;
            let id = started.map_err(|error| playbook_error::playbook_error(&error, &name, &text))?;
            Ok(RemoteRun::new(client, id))
        }
        StartRequest::Catalog {
            path,
            version,
            payload,
            labels,
        } => {
            let request = ExecuteRequest {
                path: Some(path),
                version,
                ..execute_request(client, payload, &labels)
            };
            Ok(RemoteRun::new(client, send_execute(client, &request).await?))
        }
        StartRequest::Resume(row) if row.status == RunStatus::Running => Ok(RemoteRun {
            ended_since: clock::now(),
            is_owned: false,
            ..RemoteRun::new(client, row.id)
        }),
        StartRequest::Resume(row) => continue_run(client, row, ControlRequest::Resume).await,
        StartRequest::Retry(row, version) => continue_run(client, row, ControlRequest::Retry { version }).await,
        StartRequest::Rerun(row, request) => {
            let path = paths::run_path(row.id, "/rerun");
            let started: ExecuteResponse = client.post(&path, &request).await?;
            Ok(RemoteRun::new(client, started.execution_id))
        }
    }
}

/// Builds the request for a run. With several servers it has a deduplication key, so that failover starts only one run.
fn execute_request(client: &Client, payload: Option<RawJson>, labels: &Labels) -> ExecuteRequest {
    let random_key = || format!("cli-{:032x}", rand::random::<u128>());
    ExecuteRequest {
        payload,
        labels: labels
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        dedup: (client.servers().len() > 1).then(random_key),
        ..ExecuteRequest::default()
    }
}

async fn send_execute(client: &Client, request: &ExecuteRequest) -> Result<ExecutionId, CallError> {
    let started: ExecuteResponse = client.post("/api/execute", request).await?;
    Ok(started.execution_id)
}

/// Resumes or retries a run. When this returns, the server has accepted the request; the event may follow later.
async fn continue_run(client: &Client, row: ExecutionRow, request: ControlRequest) -> Result<RemoteRun<'_>, CliError> {
    let run = RemoteRun {
        ended_since: row.finished_at.unwrap_or_else(clock::now),
        ..RemoteRun::new(client, row.id)
    };
    let is_resume = matches!(request, ControlRequest::Resume);
    let Err(mut problem) = send_control(client, row.id, request).await else {
        return Ok(run);
    };
    // Another client resumed the paused run first; this process follows it.
    if is_resume && matches!(&*problem.code, "NOT_PAUSED" | "EXECUTION_ENDED") {
        return Ok(run);
    }
    let status = row.status.name().to_ascii_lowercase();
    problem.message = format!("run {}: {}", row.id, problem.message);
    Err(problem.help(format!("the run is {status}; see `noetl show {}`", row.id)))
}

/// Sends a control request to a run and returns its state.
pub(super) async fn send_control(
    client: &Client,
    id: ExecutionId,
    request: ControlRequest,
) -> Result<ExecutionSummary, CliError> {
    let (path, body) = match request {
        ControlRequest::Cancel(StopRequest {
            reason,
            ending: Some(status),
            ..
        }) => ("/finalize".to_owned(), json!(FinalizeRequest { status, reason })),
        ControlRequest::Cancel(StopRequest { reason, cascade, .. }) => {
            ("/cancel".to_owned(), json!(CancelRequest { reason, cascade }))
        }
        ControlRequest::Pause { reason } => ("/pause".to_owned(), json!(ReasonRequest { reason })),
        ControlRequest::Resume => ("/resume".to_owned(), json!(ReasonRequest::default())),
        ControlRequest::Retry { version } => ("/retry".to_owned(), json!(RetryRequest { version })),
        ControlRequest::Signal { name, payload } => {
            let path = format!("/signal/{}", encode_segment(name.as_str()));
            (path, json!(payload))
        }
        ControlRequest::Patch { patch: variables } => {
            let body = json!({ "variables": variables });
            return Ok(client.post(&format!("/api/vars/{id}"), &body).await?);
        }
    };
    Ok(client.post(&paths::run_path(id, &path), &body).await?)
}

impl<'a> RemoteRun<'a> {
    /// A run that this command starts or continues.
    fn new(client: &'a Client, id: ExecutionId) -> Self {
        Self {
            client,
            id,
            ended_since: Time::default(),
            is_owned: true,
            watcher: None,
        }
    }

    /// Sends a GET request; retries for up to `RECONNECT_TIMEOUT`, because a server may be restarting.
    async fn get_with_retry<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        let until = tokio::time::Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match self.client.get(path).await {
                Ok(result) => return Ok(result),
                Err(error) if error.is_transient() && tokio::time::Instant::now() < until => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[async_trait]
impl RunWatcher for RemoteRun<'_> {
    async fn next_update(&mut self) -> Result<RunUpdate, CliError> {
        match &mut self.watcher {
            Some(watcher) => watcher.next_update().await,
            None => Ok(RunUpdate::LogChanged),
        }
    }
}

#[async_trait]
impl DrivenRun for RemoteRun<'_> {
    fn id(&self) -> ExecutionId {
        self.id
    }

    fn ended_since(&self) -> Time {
        self.ended_since
    }

    fn is_owned(&self) -> bool {
        self.is_owned
    }

    fn interrupt_message(&self) -> String {
        "stopped waiting; the server completes the cancellation".to_owned()
    }

    fn detached_location(&self) -> &'static str {
        "on the server"
    }

    fn start_watching(&mut self, after: Seq) {
        self.watcher = Some(SseWatcher::start(self.client, self.id, after));
    }

    /// Does nothing: the server drives the run.
    async fn poll(&mut self) -> Result<(), CliError> {
        Ok(())
    }

    async fn events(&self, after: Seq) -> Result<Vec<Event>, CliError> {
        let path = paths::events_path(self.id, after, EVENTS_PAGE_MAX);
        let page: EventPage = self.get_with_retry(&path).await?;
        page.events.iter().map(|json| parse_event(json.text())).collect()
    }

    async fn result(&self, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        let path = paths::result_path(self.id, address);
        let until = tokio::time::Instant::now() + RECONNECT_TIMEOUT;
        loop {
            match self.client.get_stream(&path).await {
                Err(error) if error.is_transient() && tokio::time::Instant::now() < until => {
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                result => return Ok(none_if_missing(result)?.map(unwrap_result)),
            }
        }
    }

    async fn cancel(&self) -> Result<(), CliError> {
        let request = ControlRequest::Cancel(StopRequest {
            reason: Some("interrupted".to_owned()),
            ..StopRequest::default()
        });
        match send_control(self.client, self.id, request).await {
            // `EXECUTION_ENDED` means that the run has just ended.
            Err(problem) if problem.code != "EXECUTION_ENDED" => Err(problem),
            _ => Ok(()),
        }
    }

    async fn detach(self: Box<Self>) -> Result<(), CliError> {
        Ok(())
    }

    async fn stop(self: Box<Self>) {}
}
