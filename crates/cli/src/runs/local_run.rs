//! A run in a local store: this process drives it, or follows it while another process drives it.

use std::process::{Command, Stdio};

use async_trait::async_trait;
use engine::{ControlRequest, Refusal};
use model::event::{Event, StopRequest};
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use model::time::Time;
use results::ByteStream;
use server::{CommitNotice, ControlError, ResultAddress, control_priority};
use store::{Adoption, ExecutionRow, Priority};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::args::DriveArgs;
use crate::cli_error::{CliError, Exit};
use crate::control_plane::ControlPlane;
use crate::run_reader::EVENTS_PAGE_MAX;
use crate::runs::run_watch::{DrivenRun, RunUpdate, RunWatcher};

/// A run that this process drives or follows.
pub(super) struct LocalRun<'a> {
    app: &'a App,
    control_plane: ControlPlane,
    id: ExecutionId,
    ended_since: Time,
    adoption: Adoption,
    commits: Receiver<std::sync::Arc<CommitNotice>>,
    changes: store::ChangeWatch,
    drive_args: &'a DriveArgs,
}

impl<'a> LocalRun<'a> {
    /// Wraps a run that has just started.
    pub(super) fn new(app: &'a App, control_plane: ControlPlane, id: ExecutionId, drive_args: &'a DriveArgs) -> Self {
        Self {
            app,
            commits: control_plane.server.subscribe_commits(),
            control_plane,
            id,
            ended_since: Time::default(),
            adoption: Adoption::Owned,
            changes: store::ChangeWatch::default(),
            drive_args,
        }
    }

    /// Adopts an existing run unless another process drives it, and sends the control request.
    pub(super) async fn resume(
        app: &'a App,
        control_plane: ControlPlane,
        row: ExecutionRow,
        request: Option<ControlRequest>,
        drive_args: &'a DriveArgs,
    ) -> Result<Self, CliError> {
        let ended_since = control_plane.reader.store.now();
        let commits = control_plane.server.subscribe_commits();
        let priority = request.as_ref().map_or(Priority::Normal, control_priority);
        let adoption = control_plane.server.adopt(row.id, priority).await?;
        if let Some(control) = request {
            let is_resume = matches!(control, ControlRequest::Resume);
            match control_plane.server.control(row.id, control).await {
                Ok(()) => {}
                // Another process resumed the paused run first; this process follows it.
                Err(ControlError::Refused(Refusal::NotPaused | Refusal::ExecutionEnded)) if is_resume => {}
                Err(ControlError::Refused(refusal)) => return Err(refusal_error(&row, &refusal)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self {
            app,
            control_plane,
            id: row.id,
            ended_since,
            adoption,
            commits,
            changes: store::ChangeWatch::default(),
            drive_args,
        })
    }

    /// Starts a worker for the run if this process drives it.
    pub(super) fn start_worker(&mut self) -> Result<(), CliError> {
        if self.adoption == Adoption::Owned {
            self.control_plane.start_worker(self.app, self.drive_args)?;
        }
        Ok(())
    }
}

fn refusal_error(row: &ExecutionRow, refusal: &Refusal) -> CliError {
    let status = row.status.name().to_ascii_lowercase();
    let message = format!("run {}: {refusal}", row.id);
    CliError::with_code(Exit::NotAllowed, refusal.code(), message)
        .help(format!("the run is {status}; see `noetl show {}`", row.id))
}

#[async_trait]
impl RunWatcher for LocalRun<'_> {
    async fn next_update(&mut self) -> Result<RunUpdate, CliError> {
        loop {
            tokio::select! {
                commit = self.commits.recv() => match commit {
                    Ok(commit) if commit.execution == self.id => return Ok(RunUpdate::Commit(commit)),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Ok(RunUpdate::LogChanged),
                    Err(RecvError::Closed) => return Err(server::Error::Stopping.into()),
                },
                () = self.changes.wait_for_change(&*self.control_plane.reader.store) => return Ok(RunUpdate::LogChanged),
            }
        }
    }
}

#[async_trait]
impl DrivenRun for LocalRun<'_> {
    fn id(&self) -> ExecutionId {
        self.id
    }

    fn ended_since(&self) -> Time {
        self.ended_since
    }

    fn is_owned(&self) -> bool {
        self.adoption == Adoption::Owned
    }

    fn interrupt_message(&self) -> String {
        let id = self.id;
        format!("exited before the cancellation finished; complete it with `noetl resume {id}`")
    }

    fn detached_location(&self) -> &'static str {
        "in the background"
    }

    fn store_error(&self) -> Option<String> {
        let error = self.control_plane.reader.store.check_health().err()?;
        Some(format!("{}: {error}", error.code()))
    }

    /// Does nothing: `commits` receives commits from the start.
    fn start_watching(&mut self, _after: Seq) {}

    /// Adopts the run if the process that drove it has exited.
    async fn poll(&mut self) -> Result<(), CliError> {
        if self.adoption != Adoption::Owned {
            self.adoption = self.control_plane.server.adopt(self.id, Priority::Normal).await?;
            self.start_worker()?;
        }
        Ok(())
    }

    async fn events(&self, after: Seq) -> Result<Vec<Event>, CliError> {
        Ok(self
            .control_plane
            .reader
            .store
            .events(self.id, after, EVENTS_PAGE_MAX)
            .await?)
    }

    async fn result(&self, address: &ResultAddress) -> Result<Option<ByteStream>, CliError> {
        self.control_plane.reader.result(self.id, address).await
    }

    async fn cancel(&self) -> Result<(), CliError> {
        let control = ControlRequest::Cancel(StopRequest {
            reason: Some("interrupted".to_owned()),
            ..StopRequest::default()
        });
        match self.control_plane.server.control(self.id, control).await {
            // A refusal means that the run has just ended.
            Ok(()) | Err(ControlError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn detach(self: Box<Self>) -> Result<(), CliError> {
        let Self {
            app,
            control_plane,
            id,
            adoption,
            drive_args,
            ..
        } = *self;
        let store = control_plane.reader.store.clone();
        // Tasks that are running finish in this process, so that they do not run twice.
        control_plane.stop().await;
        let row = store.execution(id).await?;
        let is_running = row.is_some_and(|row| row.status == RunStatus::Running);
        if adoption == Adoption::Owned && is_running {
            spawn_background(app, id, drive_args)?;
        }
        Ok(())
    }

    async fn stop(self: Box<Self>) {
        self.control_plane.stop().await;
    }
}

/// Starts a background process that drives the run.
fn spawn_background(app: &App, id: ExecutionId, drive_args: &DriveArgs) -> Result<(), CliError> {
    let spawn_error = |error: std::io::Error| {
        let message = format!("cannot start a background process: {error}");
        CliError::new(Exit::NotAllowed, "NO_BACKGROUND", message)
            .help(format!("continue the run with `noetl resume {id}`"))
    };
    let program = std::env::current_exe().map_err(spawn_error)?;
    let mut command = Command::new(program);
    command
        .args(["resume", &id.to_string(), "--background", "--quiet", "--store"])
        .arg(&app.settings.store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(slots) = drive_args.slots {
        command.args(["--slots", &slots.to_string()]);
    }
    for name in &drive_args.allow_env {
        command.args(["--allow-env", name]);
    }
    command.spawn().map_err(spawn_error)?;
    Ok(())
}
