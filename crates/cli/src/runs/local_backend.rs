//! Runs in a local store.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::ControlRequest;
use language::playbook::Playbook;
use model::event::Event;
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use model::time::Time;
use results::ByteStream;
use server::{ExecutionOptions, ExecutionOutline, ReferencePage, ResultAddress, SubmitError, SubmitRequest};
use store::{ExecutionFilter, ExecutionRow};
use wire::api::{RerunPreview, RerunRequest};

use crate::app::App;
use crate::args::DriveArgs;
use crate::cli_error::{CliError, Exit, without_userinfo};
use crate::control_plane::{self, ControlPlane};
use crate::run_reader::{EVENTS_PAGE_MAX, RunReader};
use crate::runs::backend::{FetchedLines, ListedRun, RunBackend, StatusWait};
use crate::runs::local_run::LocalRun;
use crate::runs::run_watch::{DrivenRun, RunUpdate, RunWatcher, StartRequest};

/// Backend for runs in a local store.
pub(crate) struct LocalBackend<'a> {
    pub(super) app: &'a App,
    pub(super) reader: RunReader,
}

impl<'a> LocalBackend<'a> {
    pub(super) fn new(app: &'a App, reader: RunReader) -> Self {
        Self { app, reader }
    }
}

#[async_trait]
impl RunBackend for LocalBackend<'_> {
    fn run_location(&self, _id: ExecutionId) -> String {
        let store = without_userinfo(self.app.settings.store.display().to_string());
        let is_explicit = self.app.settings.store.is_absolute() || store.starts_with("./");
        let store = if is_explicit { store } else { format!("./{store}") };
        format!("local, store {store}")
    }

    fn now(&self) -> Time {
        self.reader.store.now()
    }

    async fn find_row(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, CliError> {
        Ok(self.reader.store.execution(id).await?)
    }

    async fn list_runs(&self, filter: &ExecutionFilter) -> Result<Vec<ListedRun>, CliError> {
        let store = &self.reader.store;
        let rows = store.executions(filter).await?;
        let active = rows.iter().filter(|row| !row.status.is_terminal());
        let active: Vec<ExecutionId> = active.map(|row| row.id).collect();
        let signals: HashMap<ExecutionId, Name> = store.awaited_signals(&active).await?.into_iter().collect();
        let runs = rows.into_iter().map(|row| ListedRun {
            waits_for: signals.get(&row.id).cloned(),
            row,
        });
        Ok(runs.collect())
    }

    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, CliError> {
        Ok(self.reader.store.events(id, after, EVENTS_PAGE_MAX).await?)
    }

    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<ExecutionOutline, CliError> {
        Ok(self.reader.result_reader().outline(id, after, EVENTS_PAGE_MAX).await?)
    }

    fn watch_run<'a>(&'a self, id: ExecutionId, _after: Seq) -> Box<dyn RunWatcher + 'a> {
        Box::new(StoreWatcher {
            reader: &self.reader,
            id,
            changes: store::ChangeWatch::default(),
        })
    }

    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Arc<Playbook>>, CliError> {
        self.reader.playbook(&row.hash, row.path.as_str()).await
    }

    async fn result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        self.reader.result(id, address).await
    }

    async fn raw_result(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        let reader = self.reader.result_reader();
        match reader.find(id, address).await? {
            Some(located) => Ok(Some(reader.stream(located).await?)),
            None => Ok(None),
        }
    }

    async fn list_results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<ReferencePage, CliError> {
        Ok(self
            .reader
            .result_reader()
            .list_references(id, address, after, EVENTS_PAGE_MAX)
            .await?)
    }

    async fn log_lines(&self, id: ExecutionId, after: u64) -> Result<FetchedLines, CliError> {
        let dir = control_plane::task_logs_dir(&self.app.settings);
        let lines =
            worker::read_logs(&dir, id).map_err(|error| CliError::read_error(&dir.display().to_string(), &error))?;
        let next_after = lines.len() as u64;
        let skipped = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(FetchedLines {
            lines: lines.into_iter().skip(skipped).collect(),
            next_after,
            has_more: false,
        })
    }

    async fn wait_for_change(&self, timeout: Duration) {
        let _ = tokio::time::timeout(timeout, self.reader.store.wait_for_change()).await;
    }

    async fn is_abandoned(&self, row: &ExecutionRow) -> Result<bool, CliError> {
        let running = row.status == RunStatus::Running;
        Ok(running && self.reader.store.abandoned_executions().await?.contains(&row.id))
    }

    async fn control(
        &self,
        row: &ExecutionRow,
        request: ControlRequest,
        wait: Option<StatusWait>,
    ) -> Result<RunStatus, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        session.server.control(row.id, request).await.map_err(|error| {
            let mut problem = CliError::from(error);
            problem.message = format!("run {}: {}", row.id, problem.message);
            problem
        })?;
        let status = match wait {
            Some(target) => wait_for_status(&session, row.id, target).await?,
            None => row.status,
        };
        session.stop().await;
        Ok(status)
    }

    async fn preview_rerun(&self, row: &ExecutionRow, request: RerunRequest) -> Result<RerunPreview, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        let preview = session.server.preview_rerun(row.id, request).await;
        session.stop().await;
        preview.map_err(submit_error)
    }

    async fn start_run<'a>(
        &'a self,
        start_request: StartRequest,
        drive_args: &'a DriveArgs,
    ) -> Result<Box<dyn DrivenRun + 'a>, CliError> {
        let session = ControlPlane::start(self.reader.clone())?;
        session.allow_env(self.app, drive_args);
        let run = match start_request {
            StartRequest::Text {
                name,
                text,
                payload,
                labels,
            } => {
                let submission = SubmitRequest {
                    name,
                    text,
                    payload,
                    labels,
                };
                let id = session.server.submit(submission).await.map_err(submit_error)?;
                LocalRun::new(self.app, session, id, drive_args)
            }
            StartRequest::Catalog {
                path,
                version,
                payload,
                labels,
            } => {
                let server = &session.server;
                let id = server.new_execution_id();
                let request = ExecutionOptions {
                    payload,
                    trace_id: None,
                    labels,
                };
                let submitted = server.submit_from_catalog(id, &path, version, request);
                submitted.await.map_err(submit_error)?;
                LocalRun::new(self.app, session, id, drive_args)
            }
            StartRequest::Resume(row) => {
                let resume_control = (row.status == RunStatus::Paused).then_some(ControlRequest::Resume);
                LocalRun::resume(self.app, session, row, resume_control, drive_args).await?
            }
            StartRequest::Retry(row, version) => {
                let resume_control = Some(ControlRequest::Retry { version });
                LocalRun::resume(self.app, session, row, resume_control, drive_args).await?
            }
            StartRequest::Rerun(row, request) => {
                let id = session.server.rerun(row.id, request).await.map_err(submit_error)?;
                LocalRun::new(self.app, session, id, drive_args)
            }
        };
        let mut run = Box::new(run);
        if !drive_args.detach {
            run.start_worker()?;
        }
        Ok(run)
    }
}

/// Waits until the run has the wanted status or has ended, or the timeout passes; returns its status.
async fn wait_for_status(
    control_plane: &ControlPlane,
    id: ExecutionId,
    wait: StatusWait,
) -> Result<RunStatus, CliError> {
    let store = &control_plane.reader.store;
    let status = async || -> Result<RunStatus, CliError> {
        let row = store.execution(id).await?;
        Ok(row.map_or(RunStatus::Running, |row| row.status))
    };
    let status_reached = async {
        let mut published = control_plane.server.subscribe_commits();
        loop {
            let now = status().await?;
            if now == wait.status || now.is_terminal() {
                return Ok(now);
            }
            tokio::select! {
                _ = published.recv() => {}
                () = store.wait_for_change() => {}
            }
        }
    };
    match tokio::time::timeout(wait.timeout, status_reached).await {
        Ok(status_reached) => status_reached,
        Err(_) => status().await,
    }
}

fn submit_error(error: SubmitError) -> CliError {
    match error {
        SubmitError::Failed(error) => error.into(),
        SubmitError::NoPlaybook(_) => CliError::new(Exit::NotFound, "PLAYBOOK_NOT_FOUND", error.to_string()),
        SubmitError::Refused(refusal) => CliError::with_code(Exit::Usage, refusal.code(), refusal.to_string()),
        SubmitError::Invalid(diagnostics) => {
            let first = diagnostics.first().map_or("", |diagnostic| diagnostic.message.as_str());
            CliError::new(Exit::InvalidPlaybook, "PLAYBOOK_INVALID", first)
        }
    }
}

/// Watches a run of another process: every change of the store may be an update.
struct StoreWatcher<'a> {
    reader: &'a RunReader,
    id: ExecutionId,
    changes: store::ChangeWatch,
}

#[async_trait]
impl RunWatcher for StoreWatcher<'_> {
    async fn next_update(&mut self) -> Result<RunUpdate, CliError> {
        let row = self.reader.store.execution(self.id).await?;
        if row.is_none_or(|row| row.status.is_terminal()) {
            return Ok(RunUpdate::Closed);
        }
        self.changes.wait_for_change(&*self.reader.store).await;
        Ok(RunUpdate::LogChanged)
    }
}
