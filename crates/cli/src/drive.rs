//! Follows a run from the terminal: shows progress until it ends, handles Ctrl-C and `--timeout`.

use std::time::Duration;

use model::event::Event;
use model::id::ExecutionId;
use model::playbook::Playbook;
use model::status::RunStatus;
use serde_json::{Map, Value};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::app::{App, Ended};
use crate::args::{Driving, Format};
use crate::find;
use crate::problem::{Exit, Problem};
use crate::progress::{Progress, Subject};
use crate::render::report::{self, RunName};
use crate::render::{failure, lines, result_text};
use crate::runs::{Begin, Driven, News, Runs};
use crate::view::RunView;

/// Interval at which progress is redrawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of pages of missed events to read; beyond it the outline is read instead.
const PAGES_READ_MAX: u32 = 2;
/// Interval at which this process checks whether another process still drives the run.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Deadline of a run without `--timeout`.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3_600);

/// A run that this process follows to its end.
pub(crate) struct Follow<'a> {
    /// Shared context of the commands.
    pub(crate) app: &'a App,
    /// The backend that has the run.
    pub(crate) runs: &'a dyn Runs,
    /// The run.
    pub(crate) driven: Box<dyn Driven + 'a>,
    /// Name, ID and playbook of the run.
    pub(crate) subject: Subject,
}

/// Why following ended.
enum Stop {
    /// The run ended, or is paused.
    Settled,
    /// The run ended after Ctrl-C.
    Cancelled,
    /// `--timeout` passed.
    TimedOut,
    /// The second Ctrl-C, or the first if another process drives the run.
    Interrupted,
}

impl Follow<'_> {
    /// Follows the run to its end and prints its result or error.
    pub(crate) async fn until_settled(mut self, driving: &Driving) -> Ended {
        let mut view = RunView::default();
        let mut progress = Progress::begin(&self.subject, &self.app.out);
        let stop = self.watch(&mut view, &mut progress, driving).await;
        progress.end();
        let stop = stop?;
        if view.is_outlined && matches!(stop, Stop::Settled | Stop::Cancelled) {
            // Counts that were read while the run was active may be outdated; now they are final.
            view = find::view(self.runs, self.driven.id()).await?;
        }
        match stop {
            Stop::Settled => self.settled(&view).await,
            Stop::Cancelled => match self.settled(&view).await? {
                Exit::Cancelled => Ok(Exit::Interrupted),
                exit => Ok(exit),
            },
            Stop::TimedOut => self.hand_over(driving.timeout.unwrap_or(NEVER)).await,
            Stop::Interrupted => Ok(Exit::Interrupted),
        }
    }

    async fn watch(
        &mut self,
        view: &mut RunView,
        progress: &mut Progress,
        driving: &Driving,
    ) -> Result<Stop, Problem> {
        // Registered before the log is read for the first time, so that Ctrl-C works during that read.
        let mut keyboard = signal(SignalKind::interrupt()).map_err(|error| {
            let message = format!("cannot handle signals: {error}");
            Problem::new(Exit::NotAllowed, "NO_SIGNALS", message)
        })?;
        let mut ticks = interval(DRAW_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = sleep(driving.timeout.unwrap_or(NEVER));
        tokio::pin!(deadline);
        let mut interrupts = 0;
        let mut trouble = None;
        self.catch_up(view).await?;
        progress.skip(view, self.driven.since());
        self.driven.follow(view.last);
        loop {
            if view.status != RunStatus::Running {
                progress.update(view, &self.subject, self.runs.now(), &self.app.out);
                return Ok(if interrupts == 0 {
                    Stop::Settled
                } else {
                    Stop::Cancelled
                });
            }
            tokio::select! {
                news = self.driven.news() => self.take_in(news?, view, progress).await?,
                _ = ticks.tick() => {
                    progress.update(view, &self.subject, self.runs.now(), &self.app.out);
                    self.say_trouble(&mut trouble, progress);
                }
                _ = looks.tick(), if !self.driven.is_mine() => self.driven.look().await?,
                _ = keyboard.recv() => {
                    interrupts += 1;
                    if self.interrupt(interrupts, progress).await? {
                        return Ok(Stop::Interrupted);
                    }
                }
                () = &mut deadline => return Ok(Stop::TimedOut),
            }
        }
    }

    /// Reports once that events of the run cannot be recorded, and once that they can again.
    fn say_trouble(&self, said: &mut Option<String>, progress: &Progress) {
        let trouble = self.driven.trouble();
        if trouble == *said {
            return;
        }
        let text = match &trouble {
            Some(why) => format!(
                "{why}\n  the run waits and continues once this is fixed; press Ctrl-C to cancel it"
            ),
            None => "the store is writable again; the run continues".to_owned(),
        };
        progress.say(&text, &self.app.out);
        *said = trouble;
    }

    /// Applies an update to the view, or reads the log if events were missed.
    async fn take_in(
        &self,
        news: News,
        view: &mut RunView,
        progress: &Progress,
    ) -> Result<(), Problem> {
        let events = match &news {
            News::Commit(published) => &published.events,
            News::Events(events) => events,
            News::Unread | News::Over => return self.catch_up(view).await,
            News::Said(text) => {
                progress.say(text, &self.app.out);
                return Ok(());
            }
        };
        match events.first() {
            Some(first) if first.seq == view.last.next() => {
                self.fold(events, view);
                // A server may send one commit in several parts, so the end of a run is read from the log.
                match news {
                    News::Events(_) if view.status != RunStatus::Running => {
                        self.catch_up(view).await
                    }
                    _ => Ok(()),
                }
            }
            Some(first) if first.seq > view.last => self.catch_up(view).await,
            _ => Ok(()),
        }
    }

    /// Reads missed events, if each is printed or they are few; else the outline of the run.
    async fn catch_up(&self, view: &mut RunView) -> Result<(), Problem> {
        for pages in 0.. {
            if pages == PAGES_READ_MAX && self.app.out.format != Format::Ndjson {
                *view = find::view(self.runs, self.driven.id()).await?;
            }
            let page = self.driven.events(view.last).await?;
            if page.is_empty() {
                break;
            }
            self.fold(&page, view);
        }
        Ok(())
    }

    fn fold(&self, events: &[Event], view: &mut RunView) {
        self.stream(events);
        for event in events {
            view.fold(event);
        }
    }

    fn stream(&self, events: &[model::event::Event]) {
        if self.app.out.format == Format::Ndjson {
            for event in events {
                self.app.out.json(&event.to_json());
            }
        }
    }

    /// Handles Ctrl-C; returns whether to stop following.
    async fn interrupt(&self, interrupts: u32, progress: &Progress) -> Result<bool, Problem> {
        let (id, out) = (self.driven.id(), &self.app.out);
        if !self.driven.is_mine() {
            progress.say(&format!("detached; run {id} is still running"), out);
            return Ok(true);
        }
        if interrupts > 1 {
            progress.say(&self.driven.farewell(), out);
            return Ok(true);
        }
        let text = format!("cancelling run {id}; press Ctrl-C again to exit immediately");
        progress.say(&text, out);
        self.driven.cancel().await?;
        Ok(false)
    }

    /// Prints the result or error of the run.
    async fn settled(self, view: &RunView) -> Ended {
        let out = &self.app.out;
        let now = self.runs.now();
        let result = match view.result_address() {
            Some(address) => self.driven.result(&address).await?,
            None => None,
        };
        let (subject, id) = (&self.subject, self.driven.id().to_string());
        let surface = out.stderr;
        out.note(&lines::footer(view, &subject.name, &id, now, surface));
        let playbook = subject.playbook.as_ref();
        if view.status == RunStatus::Failed
            && let Some(block) = failure::run(view, playbook, &id, surface)
        {
            out.complain(&block);
        }
        match out.format {
            Format::Table => result_text::print_plain(out, result, &id).await?,
            Format::Json | Format::Ndjson => {
                result_text::print_report(out, self.report(view), result).await?;
            }
        }
        self.driven.stop().await;
        Ok(exit(view.status))
    }

    fn report(&self, view: &RunView) -> Map<String, Value> {
        let name = RunName {
            id: self.driven.id(),
            name: self.subject.name.clone(),
        };
        let now = self.runs.now();
        report::run(view, &name, self.subject.playbook.as_ref(), now)
    }

    /// Stops waiting; the run continues in the background or on its server.
    async fn hand_over(self, timeout: Duration) -> Ended {
        let (id, out) = (self.driven.id(), &self.app.out);
        let elsewhere = self.driven.elsewhere();
        out.complain(&format!(
            "timed out after {timeout:?}; run {id} continues {elsewhere}\n  follow  noetl events {id} -f\n  cancel  noetl cancel {id}"
        ));
        if out.is_machine() {
            let view = find::view(self.runs, id).await?;
            out.json(&self.report(&view));
        }
        self.driven.leave().await?;
        Ok(Exit::TimedOut)
    }
}

/// Starts, resumes, retries or reruns a run, and follows it.
pub(crate) async fn begin(app: &App, runs: &dyn Runs, begin: Begin, driving: &Driving) -> Ended {
    let driven = runs.begin(begin, driving).await?;
    let id = driven.id();
    if driving.detach {
        driven.leave().await?;
        app.out.data(&id.to_string());
        return Ok(Exit::Done);
    }
    let row = runs.get(id).await?;
    let row = row.ok_or_else(|| {
        Problem::new(
            Exit::NotFound,
            "RUN_NOT_FOUND",
            format!("run {id} not found"),
        )
    })?;
    let playbook = runs.playbook(&row).await?;
    let follow = Follow {
        app,
        runs,
        driven,
        subject: subject(runs, id, (row.name.to_string(), playbook)),
    };
    follow.until_settled(driving).await
}

/// Returns what the progress display shows about a run.
pub(crate) fn subject(
    runs: &dyn Runs,
    id: ExecutionId,
    (name, playbook): (String, Option<Playbook>),
) -> Subject {
    Subject {
        name,
        id: id.to_string(),
        place: runs.place(),
        playbook,
    }
}

/// Returns the exit code for the status of a run.
pub(crate) fn exit(status: RunStatus) -> Exit {
    match status {
        RunStatus::Completed => Exit::Done,
        RunStatus::Failed => Exit::RunFailed,
        RunStatus::Cancelled => Exit::Cancelled,
        RunStatus::Paused => Exit::Paused,
        RunStatus::Running => Exit::TimedOut,
    }
}
