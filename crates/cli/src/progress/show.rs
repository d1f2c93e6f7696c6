//! Selects the progress display; state and layout that the displays share.

use std::collections::BTreeMap;

use model::id::Name;
use model::playbook::Playbook;
use model::time::Time;

use crate::out::Out;
use crate::progress::live::Live;
use crate::progress::plain::Plain;
use crate::render::lines::{self, Columns};
use crate::surface::Surface;
use crate::view::{RunView, Standing, StepView};

/// The run that is shown.
#[derive(Debug)]
pub(crate) struct Subject {
    /// Name of the playbook.
    pub(crate) name: String,
    /// Run ID.
    pub(crate) id: String,
    /// Description of the backend, for the header.
    pub(crate) place: String,
    /// The playbook, if it could be loaded.
    pub(crate) playbook: Option<Playbook>,
}

/// Progress of one run.
pub(crate) enum Progress {
    /// Live display.
    Live(Live),
    /// Plain lines.
    Plain(Plain),
    /// No progress (`--quiet`).
    Silent,
}

impl Progress {
    /// Prints the header and starts the display.
    pub(crate) fn begin(subject: &Subject, out: &Out) -> Self {
        let surface = out.stderr;
        if out.is_quiet() {
            return Self::Silent;
        }
        out.note(&lines::header(
            &subject.name,
            &subject.id,
            &subject.place,
            surface,
        ));
        if surface.live {
            Self::Live(Live::new(subject, surface))
        } else {
            Self::Plain(Plain::new(subject, surface))
        }
    }

    /// Shows the changes since the last update.
    pub(crate) fn update(&mut self, view: &RunView, subject: &Subject, now: Time, out: &Out) {
        match self {
            Self::Live(live) => live.update(view, subject, now),
            Self::Plain(plain) => plain.update(view, subject, now, out),
            Self::Silent => {}
        }
    }

    /// Skips steps that ended before `since`: the process that drove the run at that time showed them.
    pub(crate) fn skip(&mut self, view: &RunView, since: Time) {
        match self {
            Self::Live(live) => live.shown.skip(view, since),
            Self::Plain(plain) => plain.shown.skip(view, since),
            Self::Silent => {}
        }
    }

    /// Prints a message without disturbing the live display.
    pub(crate) fn say(&self, text: &str, out: &Out) {
        match self {
            Self::Live(live) => live.say(text),
            Self::Plain(_) | Self::Silent => out.complain(text),
        }
    }

    /// Ends the display; clears live lines.
    pub(crate) fn end(self) {
        if let Self::Live(live) = self {
            live.end();
        }
    }
}

/// Step runs that were already shown as ended, with the time of their end.
#[derive(Debug, Default)]
pub(crate) struct Shown(BTreeMap<(Name, u32), Time>);

impl Shown {
    /// Marks steps that ended before `since` as shown.
    fn skip(&mut self, view: &RunView, since: Time) {
        for step in &view.steps {
            if let Some(at) = step.ended_at.filter(|at| *at < since) {
                self.0.insert((step.step.clone(), step.run), at);
            }
        }
    }

    /// Returns the step runs that have ended since the last call.
    pub(crate) fn newly_ended<'v>(&mut self, view: &'v RunView) -> Vec<&'v StepView> {
        let mut ended = Vec::new();
        for step in &view.steps {
            let Some(at) = step.ended_at.filter(|_| step.standing != Standing::Running) else {
                continue;
            };
            let key = (step.step.clone(), step.run);
            // A failed step that is retried ends again, at another time.
            if self.0.insert(key, at) != Some(at) {
                ended.push(step);
            }
        }
        ended
    }
}

/// Columns and surface that the lines of a run share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) columns: Columns,
    pub(crate) surface: Surface,
}

impl Layout {
    pub(crate) fn of(subject: &Subject, surface: Surface) -> Self {
        Self {
            columns: Columns::of(subject.playbook.as_ref(), surface),
            surface,
        }
    }

    /// Returns the line of a step that ended.
    pub(crate) fn ended(self, step: &StepView, subject: &Subject) -> String {
        let at = step.ended_at.unwrap_or(step.started_at);
        let layout = (self.columns, self.surface);
        lines::step(step, subject.playbook.as_ref(), layout, at)
    }
}
