//! Follows a run from the terminal: shows progress until it ends, handles Ctrl-C and `--timeout`.

use std::sync::Arc;
use std::time::Duration;

use language::playbook::Playbook;
use model::event::Event;
use model::id::ExecutionId;
use model::status::RunStatus;
use serde_json::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::{App, VerbResult};
use crate::args::{DriveArgs, OutputFormat};
use crate::cli_error::{CliError, Exit};
use crate::find;
use crate::progress::{Progress, RunDescription};
use crate::render::report::{self, RunName};
use crate::render::{failure, lines, result_text};
use crate::runs::{DrivenRun, RunBackend, RunUpdate, StartRequest};
use crate::view::RunView;

/// Interval at which progress is redrawn.
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of pages of missed events to read; beyond it the outline is read instead.
const PAGES_READ_MAX: u32 = 2;
/// Interval at which this process checks whether another process still drives the run.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Deadline of a run without `--timeout`.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A run that this process follows to its end.
pub(crate) struct RunFollower<'a> {
    /// Shared context of the commands.
    pub(crate) app: &'a App,
    /// The backend that has the run.
    pub(crate) backend: &'a dyn RunBackend,
    /// The run.
    pub(crate) run: Box<dyn DrivenRun + 'a>,
    /// Name, ID and playbook of the run.
    pub(crate) description: RunDescription,
}

/// Why following ended.
enum FollowEnd {
    /// The run ended, or is paused.
    Settled,
    /// The run ended after Ctrl-C.
    Cancelled,
    /// `--timeout` passed.
    TimedOut,
    /// The second Ctrl-C, or the first if another process drives the run.
    Interrupted,
}

impl RunFollower<'_> {
    /// Follows the run to its end and prints its result or error.
    pub(crate) async fn follow_to_end(mut self, drive_args: &DriveArgs) -> VerbResult {
        let mut view = RunView::default();
        let mut progress = Progress::start(&self.description, &self.app.output);
        let stop = self.watch_run(&mut view, &mut progress, drive_args).await;
        progress.end();
        let stop = stop?;
        if view.is_outlined && matches!(stop, FollowEnd::Settled | FollowEnd::Cancelled) {
            // Counts that were read while the run was active may be outdated; now they are final.
            view = find::load_view(self.backend, self.run.id()).await?;
        }
        match stop {
            FollowEnd::Settled => self.report_end(&view).await,
            FollowEnd::Cancelled => match self.report_end(&view).await? {
                Exit::Cancelled => Ok(Exit::Interrupted),
                exit => Ok(exit),
            },
            FollowEnd::TimedOut => self.detach(drive_args.timeout.unwrap_or(NEVER)).await,
            FollowEnd::Interrupted => Ok(Exit::Interrupted),
        }
    }

    async fn watch_run(
        &mut self,
        view: &mut RunView,
        progress: &mut Progress,
        drive_args: &DriveArgs,
    ) -> Result<FollowEnd, CliError> {
        // Registered before the log is read for the first time, so that Ctrl-C works during that read.
        let mut keyboard = signal(SignalKind::interrupt()).map_err(|error| {
            let message = format!("cannot handle signals: {error}");
            CliError::new(Exit::NotAllowed, "NO_SIGNALS", message)
        })?;
        let mut ticks = interval(DRAW_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut polls = interval(POLL_INTERVAL);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = sleep(drive_args.timeout.unwrap_or(NEVER));
        tokio::pin!(deadline);
        let mut interrupts = 0;
        let mut store_error = None;
        self.read_missed_events(view).await?;
        progress.skip_ended(view, self.run.ended_since());
        self.run.start_watching(view.last_seq);
        loop {
            if view.status != RunStatus::Running {
                progress.update(view, &self.description, self.backend.now(), &self.app.output);
                return Ok(if interrupts == 0 {
                    FollowEnd::Settled
                } else {
                    FollowEnd::Cancelled
                });
            }
            tokio::select! {
                news = self.run.next_update() => self.apply_update(news?, view, progress).await?,
                _ = ticks.tick() => {
                    progress.update(view, &self.description, self.backend.now(), &self.app.output);
                    self.report_store_error(&mut store_error, progress);
                }
                _ = polls.tick(), if !self.run.is_owned() => self.run.poll().await?,
                _ = keyboard.recv() => {
                    interrupts += 1;
                    if self.handle_interrupt(interrupts, progress).await? {
                        return Ok(FollowEnd::Interrupted);
                    }
                }
                () = &mut deadline => return Ok(FollowEnd::TimedOut),
            }
        }
    }

    /// Reports once that events of the run cannot be recorded, and once that they can again.
    fn report_store_error(&self, reported: &mut Option<String>, progress: &Progress) {
        let store_error = self.run.store_error();
        if store_error == *reported {
            return;
        }
        let text = match &store_error {
            Some(reason) => {
                format!("{reason}\n  the run waits and continues once this is fixed; press Ctrl-C to cancel it")
            }
            None => "the store is writable again; the run continues".to_owned(),
        };
        progress.print_message(&text, &self.app.output);
        *reported = store_error;
    }

    /// Applies an update to the view, or reads the log if events were missed.
    async fn apply_update(&self, update: RunUpdate, view: &mut RunView, progress: &Progress) -> Result<(), CliError> {
        let events = match &update {
            RunUpdate::Commit(published) => &published.events,
            RunUpdate::Events(events) => events,
            RunUpdate::LogChanged | RunUpdate::Closed => {
                return self.read_missed_events(view).await;
            }
            RunUpdate::Notice(text) => {
                progress.print_message(text, &self.app.output);
                return Ok(());
            }
        };
        match events.first() {
            Some(first) if first.seq == view.last_seq.next() => {
                self.fold_events(events, view);
                // A server may send one commit in several parts, so the end of a run is read from the log.
                match update {
                    RunUpdate::Events(_) if view.status != RunStatus::Running => self.read_missed_events(view).await,
                    _ => Ok(()),
                }
            }
            Some(first) if first.seq > view.last_seq => self.read_missed_events(view).await,
            _ => Ok(()),
        }
    }

    /// Reads missed events, if each is printed or they are few; else the outline of the run.
    async fn read_missed_events(&self, view: &mut RunView) -> Result<(), CliError> {
        for pages in 0.. {
            if pages == PAGES_READ_MAX && self.app.output.format != OutputFormat::Ndjson {
                *view = find::load_view(self.backend, self.run.id()).await?;
            }
            let page = self.run.events(view.last_seq).await?;
            if page.is_empty() {
                break;
            }
            self.fold_events(&page, view);
        }
        Ok(())
    }

    fn fold_events(&self, events: &[Event], view: &mut RunView) {
        self.print_events(events);
        for event in events {
            view.fold(event);
        }
    }

    fn print_events(&self, events: &[model::event::Event]) {
        if self.app.output.format == OutputFormat::Ndjson {
            for event in events {
                self.app.output.print_json(&event.to_json());
            }
        }
    }

    /// Handles Ctrl-C; returns whether to stop following.
    async fn handle_interrupt(&self, interrupts: u32, progress: &Progress) -> Result<bool, CliError> {
        let (id, out) = (self.run.id(), &self.app.output);
        if !self.run.is_owned() {
            progress.print_message(&format!("detached; run {id} is still running"), out);
            return Ok(true);
        }
        if interrupts > 1 {
            progress.print_message(&self.run.interrupt_message(), out);
            return Ok(true);
        }
        let text = format!("cancelling run {id}; press Ctrl-C again to exit immediately");
        progress.print_message(&text, out);
        self.run.cancel().await?;
        Ok(false)
    }

    /// Prints the result or error of the run.
    async fn report_end(self, view: &RunView) -> VerbResult {
        let out = &self.app.output;
        let now = self.backend.now();
        let result = match view.result_address() {
            Some(address) => self.run.result(&address).await?,
            None => None,
        };
        let (description, id) = (&self.description, self.run.id().to_string());
        let style = out.stderr;
        out.info(&lines::run_footer(view, &description.name, &id, now, style));
        let playbook = description.playbook.as_deref();
        if view.status == RunStatus::Failed
            && let Some(block) = failure::render_run_failure(view, playbook, &id, style)
        {
            out.error(&block);
        }
        match out.format {
            OutputFormat::Table => result_text::print_plain(out, result, &id).await?,
            OutputFormat::Json | OutputFormat::Ndjson => {
                result_text::print_report(out, self.build_report(view), result).await?;
            }
        }
        self.run.stop().await;
        Ok(exit_for_status(view.status))
    }

    fn build_report(&self, view: &RunView) -> Map<String, Value> {
        let name = RunName {
            id: self.run.id(),
            name: self.description.name.clone(),
        };
        let now = self.backend.now();
        report::run_report(view, &name, self.description.playbook.as_deref(), now)
    }

    /// Stops waiting; the run continues in the background or on its server.
    async fn detach(self, timeout: Duration) -> VerbResult {
        let (id, out) = (self.run.id(), &self.app.output);
        let location = self.run.detached_location();
        out.error(&format!(
            "timed out after {timeout:?}; run {id} continues {location}\n  follow  noetl events {id} -f\n  cancel  noetl cancel {id}"
        ));
        if out.is_machine() {
            let view = find::load_view(self.backend, id).await?;
            out.print_json(&self.build_report(&view));
        }
        self.run.detach().await?;
        Ok(Exit::TimedOut)
    }
}

/// Starts, resumes, retries or reruns a run, and follows it.
pub(crate) async fn start_and_follow(
    app: &App,
    backend: &dyn RunBackend,
    start_request: StartRequest,
    drive_args: &DriveArgs,
) -> VerbResult {
    let run = backend.start_run(start_request, drive_args).await?;
    let id = run.id();
    if drive_args.detach {
        run.detach().await?;
        app.output.print_data(&id.to_string());
        return Ok(Exit::Done);
    }
    let row = backend.find_row(id).await?;
    let row = row.ok_or_else(|| CliError::new(Exit::NotFound, "RUN_NOT_FOUND", format!("run {id} not found")))?;
    let playbook = backend.playbook(&row).await?;
    let follow = RunFollower {
        app,
        backend,
        run,
        description: describe_run(backend, id, row.name.to_string(), playbook),
    };
    follow.follow_to_end(drive_args).await
}

/// Returns what the progress display shows about a run.
pub(crate) fn describe_run(
    backend: &dyn RunBackend,
    id: ExecutionId,
    name: String,
    playbook: Option<Arc<Playbook>>,
) -> RunDescription {
    RunDescription {
        name,
        id: id.to_string(),
        location: backend.run_location(id),
        playbook,
    }
}

/// Returns the exit code for the status of a run.
pub(crate) fn exit_for_status(status: RunStatus) -> Exit {
    match status {
        RunStatus::Completed => Exit::Done,
        RunStatus::Failed => Exit::RunFailed,
        RunStatus::Cancelled => Exit::Cancelled,
        RunStatus::Paused => Exit::Paused,
        RunStatus::Running => Exit::TimedOut,
    }
}
