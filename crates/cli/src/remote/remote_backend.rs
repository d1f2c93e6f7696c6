//! Backend for runs on a remote server, through its API.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::ControlRequest;
use language::playbook::Playbook;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, StepRunId};
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;
use results::ByteStream;
use serde::de::DeserializeOwned;
use server::{ExecutionOutline, LoopOutline, ReferencePage, ResultAddress};
use store::{ExecutionFilter, ExecutionRow, LoopProgress};
use wire::api::{
    EventPage, ExecutionPage, ExecutionSummary, LogsResponse, OutlinePage, ReferenceList, RerunPreview, RerunRequest,
};
use wire::{CallError, Client};

use crate::args::DriveArgs;
use crate::cli_error::CliError;
use crate::clock;
use crate::config::{ServerAddress, TokenSource};
use crate::remote::paths;
use crate::remote::remote_run;
use crate::remote::result_unwrapper::unwrap_result;
use crate::remote::sse_watcher::{SseWatcher, parse_event};
use crate::remote::token::read_token;
use crate::runs::{
    CatalogBackend, DrivenRun, FetchedLines, ListedRun, RunBackend, RunWatcher, StartRequest, StatusWait,
};

/// Maximum page size of the API.
const PAGE_MAX: usize = 1_000;
/// Interval at which the status of a run is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Backend for runs on a remote server.
pub(crate) struct RemoteBackend {
    pub(super) client: Client,
}

/// Creates a client for the servers at an address.
pub(crate) fn new_client(address: &ServerAddress) -> Result<Client, CliError> {
    let token = match &address.token {
        Some(TokenSource::Token(token)) => Some(token.clone()),
        Some(TokenSource::File(file)) => Some(read_token(file)?),
        None => None,
    };
    Ok(Client::new(&address.servers, token)?)
}

impl RemoteBackend {
    /// Creates the backend for the servers at this address.
    pub(crate) fn open(address: &ServerAddress) -> Result<Self, CliError> {
        Ok(Self {
            client: new_client(address)?,
        })
    }

    pub(super) async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, CliError> {
        Ok(self.client.get(path).await?)
    }

    /// Waits until the run has the wanted status or has ended, or the timeout passes; returns its status.
    async fn wait_for_status(&self, id: ExecutionId, wait: StatusWait) -> Result<RunStatus, CliError> {
        let until = tokio::time::Instant::now() + wait.timeout;
        loop {
            let run: ExecutionSummary = self.get_json(&paths::run_path(id, "/status")).await?;
            let is_reached = run.status == wait.status || run.status.is_terminal();
            if is_reached || tokio::time::Instant::now() >= until {
                return Ok(run.status);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Converts a 404 response to `None`.
pub(super) fn none_if_missing<T>(response: Result<T, CallError>) -> Result<Option<T>, CliError> {
    match response {
        Ok(value) => Ok(Some(value)),
        Err(CallError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Converts a run of the API to a row of a store.
pub(super) fn to_row(run: ExecutionSummary) -> ExecutionRow {
    ExecutionRow {
        id: run.execution_id,
        version: run.seq,
        status: run.status,
        cancelling: run.cancelling,
        generation: run.generation,
        name: run.name,
        path: run.path,
        playbook_version: run.version,
        hash: PlaybookHash(run.hash.into()),
        parent: run.parent_execution_id,
        owner: None,
        started_at: run.started_at,
        finished_at: run.finished_at,
        current: run.current_step,
        error: run.error,
    }
}

#[async_trait]
impl RunBackend for RemoteBackend {
    fn run_location(&self, id: ExecutionId) -> String {
        let server = self
            .client
            .servers()
            .first()
            .map_or("", |server| server.trim_end_matches('/'));
        format!("{server}/runs/{id}")
    }

    fn now(&self) -> Time {
        clock::now()
    }

    async fn find_row(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, CliError> {
        let summary: Option<ExecutionSummary> =
            none_if_missing(self.client.get(&paths::run_path(id, "/status")).await)?;
        Ok(summary.map(to_row))
    }

    async fn list_runs(&self, filter: &ExecutionFilter) -> Result<Vec<ListedRun>, CliError> {
        let mut filter = filter.clone();
        let limit = filter.limit;
        let mut runs = Vec::new();
        while runs.len() < limit {
            filter.limit = (limit - runs.len()).min(PAGE_MAX);
            let page: ExecutionPage = self.get_json(&paths::list_path(&filter)).await?;
            runs.extend(page.executions.into_iter().map(|run| ListedRun {
                waits_for: run.waits_for.clone(),
                row: to_row(run),
            }));
            filter.before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
            if filter.before.is_none() {
                break;
            }
        }
        Ok(runs)
    }

    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, CliError> {
        let page: EventPage = self.get_json(&paths::events_path(id, after, PAGE_MAX)).await?;
        page.events.iter().map(|json| parse_event(json.text())).collect()
    }

    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<ExecutionOutline, CliError> {
        let page: OutlinePage = self.get_json(&paths::outline_path(id, after, PAGE_MAX)).await?;
        let events = |page: &[RawJson]| -> Result<Vec<Event>, CliError> {
            page.iter().map(|json| parse_event(json.text())).collect()
        };
        let loops = page.loops.into_iter().map(|entry| {
            Ok(LoopOutline {
                events: events(&entry.events)?,
                in_flight: entry.in_flight,
                progress: LoopProgress {
                    run: StepRunId {
                        step: entry.step,
                        run: entry.run,
                    },
                    succeeded: entry.succeeded,
                    failed: entry.failed,
                    retries: entry.retries,
                },
            })
        });
        Ok(ExecutionOutline {
            seq: page.seq,
            loops: loops.collect::<Result<_, CliError>>()?,
            events: events(&page.events)?,
            next: page.next_after_seq,
        })
    }

    fn watch_run<'a>(&'a self, id: ExecutionId, after: Seq) -> Box<dyn RunWatcher + 'a> {
        Box::new(SseWatcher::start(&self.client, id, after))
    }

    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Arc<Playbook>>, CliError> {
        let entry = self
            .find_playbook(row.path.as_str(), Some(row.playbook_version))
            .await?;
        let text = entry.and_then(|entry| entry.content);
        let parsed = text.and_then(|text| language::playbook::parse(row.path.as_str(), text.as_bytes()).playbook);
        Ok(parsed.map(Arc::new))
    }

    async fn result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        let response = self.client.get_stream(&paths::result_path(id, address)).await;
        Ok(none_if_missing(response)?.map(unwrap_result))
    }

    async fn raw_result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        self.result(id, address).await
    }

    async fn list_results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<ReferencePage, CliError> {
        let path = paths::results_path(id, address, after, PAGE_MAX);
        let list: ReferenceList = self.get_json(&path).await?;
        Ok(ReferencePage {
            entries: list.results,
            next: list.next_after_seq,
        })
    }

    async fn log_lines(&self, id: ExecutionId, after: u64) -> Result<FetchedLines, CliError> {
        let path = paths::run_path(id, &format!("/logs?after={after}&limit={PAGE_MAX}"));
        let page: LogsResponse = self.get_json(&path).await?;
        Ok(FetchedLines {
            has_more: !page.lines.is_empty(),
            lines: page.lines.into_iter().map(|entry| entry.line).collect(),
            next_after: page.next_after,
        })
    }

    async fn wait_for_change(&self, timeout: Duration) {
        tokio::time::sleep(timeout).await;
    }

    /// Always false: servers adopt abandoned runs themselves.
    async fn is_abandoned(&self, _row: &ExecutionRow) -> Result<bool, CliError> {
        Ok(false)
    }

    async fn control(
        &self,
        row: &ExecutionRow,
        request: ControlRequest,
        wait: Option<StatusWait>,
    ) -> Result<RunStatus, CliError> {
        let response = remote_run::send_control(&self.client, row.id, request).await;
        let response = response.map_err(|mut problem| {
            problem.message = format!("run {}: {}", row.id, problem.message);
            problem
        })?;
        match wait {
            Some(wanted) => self.wait_for_status(row.id, wanted).await,
            None => Ok(response.status),
        }
    }

    async fn preview_rerun(&self, row: &ExecutionRow, request: RerunRequest) -> Result<RerunPreview, CliError> {
        let path = paths::run_path(row.id, "/rerun/preview");
        Ok(self.client.post(&path, &request).await?)
    }

    async fn start_run<'a>(
        &'a self,
        start_request: StartRequest,
        _driving: &'a DriveArgs,
    ) -> Result<Box<dyn DrivenRun + 'a>, CliError> {
        Ok(Box::new(remote_run::start_run(&self.client, start_request).await?))
    }
}
