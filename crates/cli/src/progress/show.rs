//! Which of the ways to show progress is used, and what all of them share.

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

/// What is being run.
#[derive(Debug)]
pub(crate) struct Subject {
    /// The playbook's name.
    pub(crate) name: String,
    /// The run's id.
    pub(crate) id: String,
    /// Where it runs, for the header.
    pub(crate) place: String,
    /// The playbook, where it could be read.
    pub(crate) playbook: Option<Playbook>,
}

/// Progress of one run.
pub(crate) enum Progress {
    /// Lines that move.
    Live(Live),
    /// Lines that stay.
    Plain(Plain),
    /// Nothing.
    Silent,
}

impl Progress {
    /// Begins to show a run.
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

    /// Shows what has changed.
    pub(crate) fn update(&mut self, view: &RunView, subject: &Subject, now: Time, out: &Out) {
        match self {
            Self::Live(live) => live.update(view, subject, now),
            Self::Plain(plain) => plain.update(view, subject, now, out),
            Self::Silent => {}
        }
    }

    /// Passes over what ended before `since`: it was shown by the process that drove the run then.
    pub(crate) fn skip(&mut self, view: &RunView, since: Time) {
        match self {
            Self::Live(live) => live.shown.skip(view, since),
            Self::Plain(plain) => plain.shown.skip(view, since),
            Self::Silent => {}
        }
    }

    /// Says something without disturbing what moves.
    pub(crate) fn say(&self, text: &str, out: &Out) {
        match self {
            Self::Live(live) => live.say(text),
            Self::Plain(_) | Self::Silent => out.complain(text),
        }
    }

    /// Ends: what moves is taken away.
    pub(crate) fn end(self) {
        if let Self::Live(live) = self {
            live.end();
        }
    }
}

/// Which step runs were already shown as ended, and with what standing.
#[derive(Debug, Default)]
pub(crate) struct Shown(BTreeMap<(Name, u32), Time>);

impl Shown {
    /// Takes what ended before `since` as shown.
    fn skip(&mut self, view: &RunView, since: Time) {
        for step in &view.steps {
            if let Some(at) = step.ended_at.filter(|at| *at < since) {
                self.0.insert((step.step.clone(), step.run), at);
            }
        }
    }

    /// The step runs that have ended since the last call.
    pub(crate) fn newly_ended<'v>(&mut self, view: &'v RunView) -> Vec<&'v StepView> {
        let mut ended = Vec::new();
        for step in &view.steps {
            let Some(at) = step.ended_at.filter(|_| step.standing != Standing::Running) else {
                continue;
            };
            let key = (step.step.clone(), step.run);
            // A step that failed and was retried ends again, at another time.
            if self.0.insert(key, at) != Some(at) {
                ended.push(step);
            }
        }
        ended
    }
}

/// The columns and surface that a run's lines share.
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

    /// The line of a step that ended.
    pub(crate) fn ended(self, step: &StepView, subject: &Subject) -> String {
        let at = step.ended_at.unwrap_or(step.started_at);
        let layout = (self.columns, self.surface);
        lines::step(step, subject.playbook.as_ref(), layout, at)
    }
}
