//! Selects the progress display; state and layout that the displays share.

use std::collections::BTreeMap;
use std::sync::Arc;

use language::playbook::Playbook;
use model::id::Name;
use model::time::Time;

use crate::output::Output;
use crate::progress::live::LiveProgress;
use crate::progress::plain::PlainProgress;
use crate::render::lines::{self, LineColumns};
use crate::terminal_style::TerminalStyle;
use crate::view::{RunView, StepStatus, StepView};

/// The run that is shown.
#[derive(Debug)]
pub(crate) struct RunDescription {
    /// Name of the playbook.
    pub(crate) name: String,
    /// Run ID.
    pub(crate) id: String,
    /// Description of the backend, for the header.
    pub(crate) location: String,
    /// The playbook, if it could be loaded.
    pub(crate) playbook: Option<Arc<Playbook>>,
}

/// Progress of one run.
pub(crate) enum Progress {
    /// Live display.
    Live(LiveProgress),
    /// Plain lines.
    Plain(PlainProgress),
    /// No progress (`--quiet`).
    Silent,
}

impl Progress {
    /// Prints the header and starts the display.
    pub(crate) fn start(description: &RunDescription, out: &Output) -> Self {
        let style = out.stderr;
        if out.is_quiet() {
            return Self::Silent;
        }
        out.info(&lines::run_header(
            &description.name,
            &description.id,
            &description.location,
            style,
        ));
        if style.is_live {
            Self::Live(LiveProgress::new(description, style))
        } else {
            Self::Plain(PlainProgress::new(description, style))
        }
    }

    /// Shows the changes since the last update.
    pub(crate) fn update(&mut self, view: &RunView, description: &RunDescription, now: Time, out: &Output) {
        match self {
            Self::Live(live) => live.update(view, description, now),
            Self::Plain(plain) => plain.update(view, description, now, out),
            Self::Silent => {}
        }
    }

    /// Skips steps that ended before `since`: the process that drove the run at that time showed them.
    pub(crate) fn skip_ended(&mut self, view: &RunView, since: Time) {
        match self {
            Self::Live(live) => live.shown_steps.skip_ended(view, since),
            Self::Plain(plain) => plain.shown_steps.skip_ended(view, since),
            Self::Silent => {}
        }
    }

    /// Prints a message without disturbing the live display.
    pub(crate) fn print_message(&self, text: &str, out: &Output) {
        match self {
            Self::Live(live) => live.print_message(text),
            Self::Plain(_) | Self::Silent => out.error(text),
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
pub(crate) struct ShownSteps(BTreeMap<(Name, u32), Time>);

impl ShownSteps {
    /// Marks steps that ended before `since` as shown.
    fn skip_ended(&mut self, view: &RunView, since: Time) {
        for step in &view.steps {
            if let Some(ended_at) = step.ended_at.filter(|ended_at| *ended_at < since) {
                self.0.insert((step.step.clone(), step.run), ended_at);
            }
        }
    }

    /// Returns the step runs that have ended since the last call.
    pub(crate) fn newly_ended<'v>(&mut self, view: &'v RunView) -> Vec<&'v StepView> {
        let mut ended = Vec::new();
        for step in &view.steps {
            let Some(ended_at) = step.ended_at.filter(|_| step.status != StepStatus::Running) else {
                continue;
            };
            let key = (step.step.clone(), step.run);
            // A failed step that is retried ends again, at another time.
            if self.0.insert(key, ended_at) != Some(ended_at) {
                ended.push(step);
            }
        }
        ended
    }
}

/// Columns and surface that the lines of a run share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineLayout {
    pub(crate) columns: LineColumns,
    pub(crate) style: TerminalStyle,
}

impl LineLayout {
    pub(crate) fn new(description: &RunDescription, style: TerminalStyle) -> Self {
        Self {
            columns: LineColumns::new(description.playbook.as_deref(), style),
            style,
        }
    }

    /// Returns the line of a step that ended.
    pub(crate) fn ended_line(self, step: &StepView, description: &RunDescription) -> String {
        let ended_at = step.ended_at.unwrap_or(step.started_at);
        let playbook = description.playbook.as_deref();
        lines::step_line(step, playbook, self.columns, self.style, ended_at)
    }
}
