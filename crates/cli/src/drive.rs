//! Driving a run from the terminal: shows progress until it ends, hears Ctrl-C, keeps to a time limit.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use model::id::ExecutionId;
use model::status::RunStatus;
use model::time::Time;
use serde_json::Value;
use server::{Control, Published};
use store::{Adoption, ExecutionRow};
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::{App, Ended};
use crate::args::{Driving, Format};
use crate::local::Session;
use crate::problem::{Exit, Problem};
use crate::progress::{Progress, Subject};
use crate::render::report::{self, RunName};
use crate::render::{failure, lines, value};
use crate::view::RunView;

/// How often progress is drawn anew.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often another process's hold on a run is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// As good as never.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A run that this process follows to its end.
pub(crate) struct Follow<'a> {
    /// What every verb has at hand.
    pub(crate) app: &'a App,
    /// The control plane.
    pub(crate) session: Session,
    /// The run.
    pub(crate) id: ExecutionId,
    /// Its playbook and names.
    pub(crate) subject: Subject,
    /// From when on its steps are shown as they end.
    pub(crate) since: Time,
    /// Whether this process drives it, or another does.
    pub(crate) adoption: Adoption,
}

/// Why following ended.
enum Stop {
    /// The run ended, or is paused.
    Settled,
    /// The run ended after Ctrl-C asked for it.
    Cancelled,
    /// There was no more time.
    TimedOut,
    /// The second Ctrl-C, or the first where another process drives the run.
    Interrupted,
}

impl Follow<'_> {
    /// Follows the run to its end and prints what came of it.
    pub(crate) async fn until_settled(mut self, driving: &Driving) -> Ended {
        let mut view = RunView::default();
        let mut progress = Progress::begin(&self.subject, &self.app.out);
        let stop = self.watch(&mut view, &mut progress, driving).await;
        progress.end();
        match stop? {
            Stop::Settled => self.settled(&view).await,
            Stop::Cancelled => match self.settled(&view).await? {
                Exit::Cancelled => Ok(Exit::Interrupted),
                exit => Ok(exit),
            },
            Stop::TimedOut => self.hand_over(driving).await,
            Stop::Interrupted => Ok(Exit::Interrupted),
        }
    }

    async fn watch(
        &mut self,
        view: &mut RunView,
        progress: &mut Progress,
        driving: &Driving,
    ) -> Result<Stop, Problem> {
        let store = self.session.log.store.clone();
        let mut published = self.session.server.watch();
        let mut ticks = interval(DRAW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = sleep(driving.timeout.unwrap_or(NEVER));
        tokio::pin!(deadline);
        let mut interrupts = 0;
        self.catch_up(view).await?;
        progress.skip(view, self.since);
        loop {
            if view.status != RunStatus::Running {
                progress.update(view, &self.subject, store.now(), &self.app.out);
                return Ok(if interrupts == 0 {
                    Stop::Settled
                } else {
                    Stop::Cancelled
                });
            }
            tokio::select! {
                news = published.recv() => match news {
                    Ok(news) => self.take_in(&news, view).await?,
                    Err(RecvError::Lagged(_)) => self.catch_up(view).await?,
                    Err(RecvError::Closed) => return Err(server::Error::Stopping.into()),
                },
                () = store.changed() => self.catch_up(view).await?,
                _ = ticks.tick() => {
                    progress.update(view, &self.subject, store.now(), &self.app.out);
                }
                _ = looks.tick(), if self.adoption != Adoption::Mine => {
                    self.take_over(driving).await?;
                }
                _ = tokio::signal::ctrl_c() => {
                    interrupts += 1;
                    if self.interrupt(interrupts, progress).await? {
                        return Ok(Stop::Interrupted);
                    }
                }
                () = &mut deadline => return Ok(Stop::TimedOut),
            }
        }
    }

    /// Drives the run here if the process that drove it is gone.
    async fn take_over(&mut self, driving: &Driving) -> Result<(), Problem> {
        self.adoption = self.session.server.adopt(self.id).await?;
        if self.adoption == Adoption::Mine {
            self.session.work(self.app, driving)?;
        }
        Ok(())
    }

    /// Folds a commit, or reads the log where commits were missed.
    async fn take_in(&self, news: &Arc<Published>, view: &mut RunView) -> Result<(), Problem> {
        if news.execution != self.id {
            return Ok(());
        }
        match news.events.first() {
            Some(first) if first.seq == view.last.next() => {
                self.stream(&news.events);
                for event in &news.events {
                    view.fold(event);
                }
                Ok(())
            }
            Some(first) if first.seq > view.last => self.catch_up(view).await,
            _ => Ok(()),
        }
    }

    async fn catch_up(&self, view: &mut RunView) -> Result<(), Problem> {
        loop {
            let store = &self.session.log.store;
            let page = store.events(self.id, view.last, crate::log::PAGE).await?;
            self.stream(&page);
            for event in &page {
                view.fold(event);
            }
            if page.len() < crate::log::PAGE {
                return Ok(());
            }
        }
    }

    fn stream(&self, events: &[model::event::Event]) {
        if self.app.out.format == Format::Ndjson {
            for event in events {
                self.app.out.json(&event.to_json());
            }
        }
    }

    /// Answers Ctrl-C; whether it is time to go.
    async fn interrupt(&self, interrupts: u32, progress: &Progress) -> Result<bool, Problem> {
        let out = &self.app.out;
        if self.adoption != Adoption::Mine {
            progress.say("detached; the run goes on in its own process", out);
            return Ok(true);
        }
        if interrupts > 1 {
            progress.say(
                &format!(
                    "stopped at once; `noetl resume {}` finishes the cancelling",
                    self.id
                ),
                out,
            );
            return Ok(true);
        }
        progress.say("cancelling; once more to stop at once", out);
        let reason = Some("interrupted".to_owned());
        match self
            .session
            .server
            .control(
                self.id,
                Control::Cancel {
                    reason,
                    cascade: true,
                },
            )
            .await
        {
            // A run that ended in this moment needs no cancelling.
            Ok(()) | Err(server::ControlError::Refused(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Prints what came of the run.
    async fn settled(self, view: &RunView) -> Ended {
        let out = &self.app.out;
        let now = self.session.log.store.now();
        let result = self.session.log.result(self.id, view).await?;
        let (subject, id) = (&self.subject, self.id.to_string());
        let surface = out.stderr;
        out.note(&lines::footer(view, &subject.name, &id, now, surface));
        let playbook = subject.playbook.as_ref();
        if view.status == RunStatus::Failed
            && let Some(block) = failure::run(view, playbook, &id, surface)
        {
            out.complain(&block);
        }
        match out.format {
            Format::Table if result.is_null() => {}
            Format::Table => out.data(&value::plain(&result)),
            Format::Json | Format::Ndjson => {
                out.json(&self.report(view, &result));
            }
        }
        self.session.stop().await;
        Ok(exit(view.status))
    }

    fn report(&self, view: &RunView, result: &Value) -> Value {
        let name = RunName {
            id: self.id,
            name: self.subject.name.clone(),
        };
        let now = self.session.log.store.now();
        report::run(view, &name, result, self.subject.playbook.as_ref(), now)
    }

    /// Waiting is over, the run is not: a process in the background goes on with it.
    async fn hand_over(self, driving: &Driving) -> Ended {
        let (app, id, log) = (self.app, self.id, self.session.log.clone());
        let out = &app.out;
        let is_mine = self.adoption == Adoption::Mine;
        out.complain(&format!(
            "no end within the time given; run {id} goes on in the background\n  look   noetl show {id}\n  stop   noetl cancel {id}"
        ));
        if out.is_machine() {
            let view = log.view(id).await?;
            out.json(&self.report(&view, &Value::Null));
        }
        // What runs at this moment is let finish here, so that it need not run twice.
        self.session.stop().await;
        let row = log.store.execution(id).await?;
        if is_mine && row.is_some_and(|row| row.status == RunStatus::Running) {
            background(app, id, driving)?;
        }
        Ok(Exit::TimedOut)
    }
}

/// How the process ends when a run stands so.
pub(crate) fn exit(status: RunStatus) -> Exit {
    match status {
        RunStatus::Completed => Exit::Done,
        RunStatus::Failed => Exit::RunFailed,
        RunStatus::Cancelled => Exit::Cancelled,
        RunStatus::Paused => Exit::Paused,
        RunStatus::Running => Exit::TimedOut,
    }
}

/// What a run that is in the store is shown by.
pub(crate) async fn subject(
    app: &App,
    session: &Session,
    row: &ExecutionRow,
) -> Result<Subject, Problem> {
    Ok(Subject {
        name: row.name.to_string(),
        id: row.id.to_string(),
        place: place(app),
        playbook: session.log.playbook(&row.hash, row.path.as_str()).await?,
    })
}

/// Where runs of this process live, for people.
pub(crate) fn place(app: &App) -> String {
    let store = app.settings.store.display().to_string();
    let is_told = app.settings.store.is_absolute() || store.starts_with("./");
    let store = if is_told { store } else { format!("./{store}") };
    format!("local, store {store}")
}

/// Starts a process that drives a run without a terminal.
pub(crate) fn background(app: &App, id: ExecutionId, driving: &Driving) -> Result<(), Problem> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot start a process in the background: {error}");
        Problem::new(Exit::NotAllowed, "NO_BACKGROUND", message)
            .help(format!("go on with `noetl resume {id}`"))
    };
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .args([
            "resume",
            &id.to_string(),
            "--background",
            "--quiet",
            "--store",
        ])
        .arg(&app.settings.store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(slots) = driving.slots {
        command.args(["--slots", &slots.to_string()]);
    }
    for name in &driving.allow_env {
        command.args(["--allow-env", name]);
    }
    command.spawn().map_err(cannot)?;
    Ok(())
}
