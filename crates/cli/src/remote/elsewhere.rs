//! Backend for runs on a remote server, through its API.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, PlaybookHash, Seq, StepRunId};
use model::playbook::Playbook;
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;
use results::Pieces;
use serde::de::DeserializeOwned;
use server::{Control, Listed, LoopOutline, ResultAddress, RunOutline};
use store::{ExecutionRow, Filter, LoopProgress};
use wire::api::{EventPage, Execution, ExecutionPage, OutlinePage, ReferenceList};
use wire::{CallError, Client};

use crate::args::Driving;
use crate::clock;
use crate::config::{Address, Credential};
use crate::problem::Problem;
use crate::remote::begin;
use crate::remote::listen::{Listen, read};
use crate::remote::paths;
use crate::remote::token::{read_token, unanswered};
use crate::remote::unwrap::unwrapped;
use crate::runs::{Begin, Driven, Lines, Playbooks, Runs, Wanted, Watch};

/// Maximum page size of the API.
const PAGE_MAX: usize = 1_000;
/// Interval at which the status of a run is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Backend for runs on a remote server.
pub(crate) struct Elsewhere {
    pub(super) client: Client,
}

/// Creates a client for the servers at an address.
pub(crate) fn client(address: &Address) -> Result<Client, Problem> {
    let token = match &address.token {
        Some(Credential::Token(token)) => Some(token.clone()),
        Some(Credential::File(file)) => Some(read_token(file)?),
        None => None,
    };
    Client::new(&address.servers, token).map_err(|error| unanswered(&error))
}

impl Elsewhere {
    /// Creates the backend for the servers at this address.
    pub(crate) fn open(address: &Address) -> Result<Self, Problem> {
        Ok(Self {
            client: client(address)?,
        })
    }

    pub(super) async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.client
            .get(path)
            .await
            .map_err(|error| unanswered(&error))
    }

    /// Waits until the run has the wanted status or has ended, or the timeout passes; returns its status.
    async fn settled(&self, id: ExecutionId, wanted: Wanted) -> Result<RunStatus, Problem> {
        let until = tokio::time::Instant::now() + wanted.patience;
        loop {
            let run: Execution = self.ask(&paths::run(id, "/status")).await?;
            let is_reached = run.status == wanted.status || run.status.is_terminal();
            if is_reached || tokio::time::Instant::now() >= until {
                return Ok(run.status);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Converts a 404 response to `None`.
pub(super) fn if_found<T>(answer: Result<T, CallError>) -> Result<Option<T>, Problem> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(CallError::Problem(problem)) if problem.status == 404 => Ok(None),
        Err(error) => Err(unanswered(&error)),
    }
}

/// Converts a run of the API to a row of a store.
pub(super) fn row(run: Execution) -> ExecutionRow {
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

/// A page of log lines of the API.
#[derive(serde::Deserialize)]
struct LinePage {
    lines: Vec<worker::LogLine>,
    #[serde(default)]
    next_after: Option<u64>,
}

#[async_trait]
impl Runs for Elsewhere {
    fn place(&self) -> String {
        self.client.servers().join(", ")
    }

    fn now(&self) -> Time {
        clock::now()
    }

    async fn get(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Problem> {
        let found: Option<Execution> = if_found(self.client.get(&paths::run(id, "/status")).await)?;
        Ok(found.map(row))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Problem> {
        let mut filter = filter.clone();
        let limit = filter.limit;
        let mut rows = Vec::new();
        while rows.len() < limit {
            filter.limit = (limit - rows.len()).min(PAGE_MAX);
            let page: ExecutionPage = self.ask(&paths::list(&filter)).await?;
            rows.extend(page.executions.into_iter().map(row));
            filter.before = page.next_cursor.and_then(|cursor| cursor.parse().ok());
            if filter.before.is_none() {
                break;
            }
        }
        Ok(rows)
    }

    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, Problem> {
        let page: EventPage = self.ask(&paths::events(id, after, PAGE_MAX)).await?;
        page.events.iter().map(|shown| read(shown.text())).collect()
    }

    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<RunOutline, Problem> {
        let page: OutlinePage = self.ask(&paths::outline(id, after, PAGE_MAX)).await?;
        let events = |shown: &[Raw]| -> Result<Vec<Event>, Problem> {
            shown.iter().map(|shown| read(shown.text())).collect()
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
        Ok(RunOutline {
            seq: page.seq,
            loops: loops.collect::<Result<_, Problem>>()?,
            events: events(&page.events)?,
            next: page.next_after_seq,
        })
    }

    fn watch<'a>(&'a self, id: ExecutionId, after: Seq) -> Box<dyn Watch + 'a> {
        Box::new(Listen::begin(&self.client, id, after))
    }

    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Playbook>, Problem> {
        let entry = self
            .find(row.path.as_str(), Some(row.playbook_version))
            .await?;
        let text = entry.and_then(|entry| entry.content);
        Ok(text
            .and_then(|text| model::playbook::parse(row.path.as_str(), text.as_bytes()).playbook))
    }

    async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem> {
        let answer = self.client.read(&paths::result(id, address)).await;
        Ok(if_found(answer)?.map(unwrapped))
    }

    async fn read(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem> {
        self.result(id, address).await
    }

    async fn results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<Listed, Problem> {
        let path = paths::results(id, address, after, PAGE_MAX);
        let list: ReferenceList = self.ask(&path).await?;
        Ok(Listed {
            entries: list.results,
            next: list.next_after_seq,
        })
    }

    async fn lines(&self, id: ExecutionId, after: u64) -> Result<Lines, Problem> {
        let path = paths::run(id, &format!("/logs?after={after}&limit={PAGE_MAX}"));
        let page: LinePage = self.ask(&path).await?;
        let is_more = !page.lines.is_empty() && page.next_after.is_some();
        let next = page.next_after.unwrap_or(after + page.lines.len() as u64);
        Ok(Lines {
            fresh: page.lines,
            next,
            is_more,
        })
    }

    async fn changed(&self, patience: Duration) {
        tokio::time::sleep(patience).await;
    }

    /// Always false: servers adopt abandoned runs themselves.
    async fn is_abandoned(&self, _row: &ExecutionRow) -> Result<bool, Problem> {
        Ok(false)
    }

    async fn say(
        &self,
        row: &ExecutionRow,
        word: Control,
        wanted: Option<Wanted>,
    ) -> Result<RunStatus, Problem> {
        let said = begin::say(&self.client, row.id, word).await;
        let said = said.map_err(|mut problem| {
            problem.message = format!("run {}: {}", row.id, problem.message);
            problem
        })?;
        match wanted {
            Some(wanted) => self.settled(row.id, wanted).await,
            None => Ok(said.status),
        }
    }

    async fn begin<'a>(
        &'a self,
        begin: Begin,
        _driving: &'a Driving,
    ) -> Result<Box<dyn Driven + 'a>, Problem> {
        Ok(Box::new(begin::begin(&self.client, begin).await?))
    }
}
