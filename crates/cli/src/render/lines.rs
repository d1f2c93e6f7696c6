//! One-line texts: start and end of a run, and the status of a step.

use language::playbook::{Playbook, Step};
use model::status::RunStatus;
use model::time::Time;

use crate::render::{human, preview};
use crate::terminal_style::TerminalStyle;
use crate::view::{RunView, StepStatus, StepView};

/// Column widths that the lines of a run share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineColumns {
    step: usize,
    kind: usize,
    preview: usize,
}

impl LineColumns {
    /// Computes widths that fit the names in the playbook and the terminal.
    pub(crate) fn new(playbook: Option<&Playbook>, style: TerminalStyle) -> Self {
        let steps = playbook.map_or(&[][..], |playbook| &playbook.steps);
        let widest = |width: fn(&Step) -> usize, least: usize, most: usize| {
            let widths = steps.iter().map(width);
            widths.max().unwrap_or(0).clamp(least, most)
        };
        let step = widest(|step| step.name.as_str().chars().count(), 8, 32);
        let kind = widest(|step| step_kind(step).chars().count(), 6, 16);
        let remaining_columns = style.columns.unwrap_or(100).saturating_sub(step + kind + 20);
        Self {
            step,
            kind,
            preview: remaining_columns.clamp(10, 60),
        }
    }

    /// Returns the name and kind of a step, padded.
    pub(crate) fn pad_head(self, step: &str, kind: &str) -> String {
        let Self {
            step: wide,
            kind: wide_kind,
            ..
        } = self;
        let step = human::truncate(step, wide);
        let kind = human::truncate(kind, wide_kind);
        format!("{step:wide$}  {kind:wide_kind$}")
    }
}

/// Returns the tool kind of a step, or `loop`, `route` or the number of its tasks.
pub(crate) fn step_kind(step: &Step) -> String {
    match (&step.loop_, &step.tasks[..]) {
        (Some(_), _) => "loop".to_owned(),
        (None, []) => "route".to_owned(),
        (None, [task]) => task.kind.to_string(),
        (None, tasks) => format!("{} tasks", tasks.len()),
    }
}

/// Returns the kind of a step of a run; empty if it is unknown.
pub(crate) fn step_view_kind(playbook: Option<&Playbook>, step: &StepView) -> String {
    let playbook_step = playbook.and_then(|playbook| playbook.step(step.step.as_str()));
    match playbook_step {
        Some(playbook_step) => step_kind(playbook_step),
        None if step.loop_view.is_some() => "loop".to_owned(),
        None => String::new(),
    }
}

/// Returns the first line of a run.
pub(crate) fn run_header(name: &str, id: &str, location: &str, style: TerminalStyle) -> String {
    let mark = style.choose("▸", ">");
    format!("{mark} {}   run {id}   {}", style.strong(name), style.dim(location))
}

/// Returns the line of a step.
pub(crate) fn step_line(
    step: &StepView,
    playbook: Option<&Playbook>,
    columns: LineColumns,
    style: TerminalStyle,
    now: Time,
) -> String {
    let mark = match step.status {
        StepStatus::Done => style.tick(),
        StepStatus::Failed => style.cross(),
        StepStatus::Stopped => style.warn(style.choose("■", "-")),
        StepStatus::Running => style.dim(style.choose("▸", ">")),
    };
    let name = match step.run {
        0 | 1 => step.step.to_string(),
        run => format!("{}:{run}", step.step),
    };
    let head = columns.pad_head(&name, &step_view_kind(playbook, step));
    let outcome_text = step_outcome(step, columns.preview);
    let width = columns.preview;
    let took = human::format_duration_ms(step.elapsed_ms(now));
    format!("{mark} {head}  {outcome_text:width$}  {}", style.dim(&took))
}

/// Returns the result or error of a step in at most `chars` characters.
pub(crate) fn step_outcome(step: &StepView, chars: usize) -> String {
    let failure = step.failure().map(|(iteration, failure)| {
        let iteration_label = iteration.map_or_else(String::new, |index| format!("#{index} "));
        let message = human::escape_controls(&failure.error.message).replace('\n', " ");
        format!("{iteration_label}{}: {message}", failure.error.code)
    });
    let text = match (&step.loop_view, failure) {
        (Some(loop_view), failure) => {
            let ended = format!(
                "{} of {}",
                human::format_count(loop_view.succeeded),
                human::format_count(loop_view.total)
            );
            match (loop_view.failed_count(), failure) {
                (0, None) => ended,
                (failed, failure) => {
                    let failure = failure.map_or_else(String::new, |failure| format!(", {failure}"));
                    format!("{ended}, {failed} failed{failure}")
                }
            }
        }
        (None, Some(failure)) => failure,
        (None, None) => {
            let preview_of = |outcome| preview::preview_outcome(outcome, step.body.as_deref(), chars);
            step.outcome.as_ref().map(preview_of).unwrap_or_default()
        }
    };
    human::truncate(&text, chars)
}

/// Returns the last line of a run: its status and a hint.
pub(crate) fn run_footer(view: &RunView, name: &str, id: &str, now: Time, style: TerminalStyle) -> String {
    let took = human::format_duration_ms(view.elapsed_ms(now));
    let (mark, message) = match view.status {
        RunStatus::Completed => (style.tick(), format!("succeeded in {took}")),
        RunStatus::Failed => (style.cross(), format!("failed after {took}")),
        RunStatus::Cancelled => (style.warn(style.choose("■", "-")), format!("cancelled after {took}")),
        RunStatus::Paused => (style.warn(style.choose("‖", "=")), "is paused".to_owned()),
        RunStatus::Running => (style.dim(style.choose("▸", ">")), "is running".to_owned()),
    };
    let events = human::format_counted(usize::try_from(view.events).unwrap_or(usize::MAX), "event");
    let hint = match view.status {
        RunStatus::Failed => failure_reason(view).unwrap_or_default(),
        RunStatus::Paused => format!("{events}   noetl resume {id}"),
        RunStatus::Running => format!("{events}   noetl events {id} -f"),
        RunStatus::Completed | RunStatus::Cancelled => format!("{events}   noetl show {id}"),
    };
    format!("{mark} {} {message}   {}", style.strong(name), style.dim(&hint))
}

/// Returns where a run failed: `fetch: 3 of 10,000 iterations failed`.
fn failure_reason(view: &RunView) -> Option<String> {
    let step = view.failed_step()?;
    let reason = match &step.loop_view {
        Some(loop_view) if loop_view.failed_count() > 0 => {
            let (failed, total) = (loop_view.failed_count(), loop_view.total);
            format!(
                "{} of {} iterations failed",
                human::format_count(failed),
                human::format_count(total)
            )
        }
        _ => step.failure().map(|(_, failure)| failure.error.code.clone())?,
    };
    Some(format!("{}: {reason}", step.step))
}

#[cfg(test)]
mod tests {
    use model::event::{EmptyPayload, EventBody, StepDone};
    use model::outcome::Outcome;
    use serde_json::json;

    use super::*;
    use crate::view::testing::{EventLogFixture, task_ended, task_error, task_location};

    #[test]
    fn a_step_line_has_mark_name_result_and_time() {
        let mut log = EventLogFixture::started();
        log.push_step("greet", EventBody::StepStarted(EmptyPayload {}))
            .push(
                task_location("greet", None, "a", 1),
                EventBody::TaskDone(Box::new(task_ended(&Outcome::ok(json!({"n": 1}))))),
            )
            .push_step("greet", EventBody::StepDone(StepDone::default()));
        let view = RunView::from_events(&log.events);
        let columns = LineColumns::new(None, TerminalStyle::PLAIN);
        let line = step_line(&view.steps[0], None, columns, TerminalStyle::PLAIN, view.last_event_at);
        assert!(line.starts_with("✓ greet"), "{line}");
        assert!(line.contains("{n: 1}") && line.ends_with("2ms"), "{line}");
    }

    #[test]
    fn the_last_line_shows_the_status_and_the_failed_step() {
        let mut log = EventLogFixture::started();
        let broken = task_error("BROKEN", "load");
        log.fail_run("load", broken);
        let view = RunView::from_events(&log.events);
        let line = run_footer(&view, "demo", "7", view.last_event_at, TerminalStyle::PLAIN);
        assert_eq!(line, "✗ demo failed after 2ms   load: BROKEN");
    }
}
