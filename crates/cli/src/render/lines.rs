//! One-line texts: start and end of a run, and the status of a step.

use model::playbook::{Playbook, Step};
use model::status::RunStatus;
use model::time::Time;

use crate::render::{human, preview};
use crate::surface::Surface;
use crate::view::{RunView, Standing, StepView};

/// Column widths that the lines of a run share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Columns {
    step: usize,
    kind: usize,
    preview: usize,
}

impl Columns {
    /// Computes widths that fit the names in the playbook and the terminal.
    pub(crate) fn of(playbook: Option<&Playbook>, surface: Surface) -> Self {
        let steps = playbook.map_or(&[][..], |playbook| &playbook.steps);
        let widest = |width: fn(&Step) -> usize, least: usize, most: usize| {
            let widths = steps.iter().map(width);
            widths.max().unwrap_or(0).clamp(least, most)
        };
        let step = widest(|step| step.name.as_str().chars().count(), 8, 32);
        let kind = widest(|step| kind(step).chars().count(), 6, 16);
        let room = surface
            .columns
            .unwrap_or(100)
            .saturating_sub(step + kind + 20);
        Self {
            step,
            kind,
            preview: room.clamp(10, 60),
        }
    }

    /// Returns the name and kind of a step, padded.
    pub(crate) fn head(self, step: &str, kind: &str) -> String {
        let Self {
            step: wide,
            kind: wide_kind,
            ..
        } = self;
        let step = human::cut(step, wide);
        let kind = human::cut(kind, wide_kind);
        format!("{step:wide$}  {kind:wide_kind$}")
    }
}

/// Returns the tool kind of a step, or `loop`, `route` or the number of its tasks.
pub(crate) fn kind(step: &Step) -> String {
    match (&step.loop_, &step.tasks[..]) {
        (Some(_), _) => "loop".to_owned(),
        (None, []) => "route".to_owned(),
        (None, [task]) => task.kind.to_string(),
        (None, tasks) => format!("{} tasks", tasks.len()),
    }
}

/// Returns the kind of a step of a run; empty if it is unknown.
pub(crate) fn kind_of(playbook: Option<&Playbook>, step: &StepView) -> String {
    let known = playbook.and_then(|playbook| playbook.step(step.step.as_str()));
    match known {
        Some(known) => kind(known),
        None if step.lap.is_some() => "loop".to_owned(),
        None => String::new(),
    }
}

/// Returns the first line of a run.
pub(crate) fn header(name: &str, id: &str, place: &str, surface: Surface) -> String {
    let mark = surface.either("▸", ">");
    format!(
        "{mark} {}   run {id}   {}",
        surface.strong(name),
        surface.dim(place)
    )
}

/// Returns the line of a step.
pub(crate) fn step(
    step: &StepView,
    playbook: Option<&Playbook>,
    layout: (Columns, Surface),
    now: Time,
) -> String {
    let (columns, surface) = layout;
    let mark = match step.standing {
        Standing::Done => surface.tick(),
        Standing::Failed => surface.cross(),
        Standing::Stopped => surface.warn(surface.either("■", "-")),
        Standing::Running => surface.dim(surface.either("▸", ">")),
    };
    let name = match step.run {
        0 | 1 => step.step.to_string(),
        run => format!("{}:{run}", step.step),
    };
    let head = columns.head(&name, &kind_of(playbook, step));
    let what = what(step, columns.preview);
    let width = columns.preview;
    let took = human::span_ms(step.elapsed_ms(now));
    format!("{mark} {head}  {what:width$}  {}", surface.dim(&took))
}

/// Returns the result or error of a step in at most `chars` characters.
pub(crate) fn what(step: &StepView, chars: usize) -> String {
    let failure = step.failure().map(|(iteration, failure)| {
        let place = iteration.map_or_else(String::new, |index| format!("#{index} "));
        let message = human::tame(&failure.error.message).replace('\n', " ");
        format!("{place}{}: {message}", failure.error.code)
    });
    let text = match (&step.lap, failure) {
        (Some(lap), failure) => {
            let ended = format!(
                "{} of {}",
                human::count(lap.succeeded),
                human::count(lap.total)
            );
            match (lap.failed_count(), failure) {
                (0, None) => ended,
                (failed, failure) => {
                    let failure =
                        failure.map_or_else(String::new, |failure| format!(", {failure}"));
                    format!("{ended}, {failed} failed{failure}")
                }
            }
        }
        (None, Some(failure)) => failure,
        (None, None) => {
            let shown = |outcome| preview::outcome(outcome, step.body.as_deref(), chars);
            step.outcome.as_ref().map(shown).unwrap_or_default()
        }
    };
    human::cut(&text, chars)
}

/// Returns the last line of a run: its status and a hint.
pub(crate) fn footer(view: &RunView, name: &str, id: &str, now: Time, surface: Surface) -> String {
    let took = human::span_ms(view.elapsed_ms(now));
    let (mark, says) = match view.status {
        RunStatus::Completed => (surface.tick(), format!("succeeded in {took}")),
        RunStatus::Failed => (surface.cross(), format!("failed after {took}")),
        RunStatus::Cancelled => (
            surface.warn(surface.either("■", "-")),
            format!("cancelled after {took}"),
        ),
        RunStatus::Paused => (
            surface.warn(surface.either("‖", "=")),
            "is paused".to_owned(),
        ),
        RunStatus::Running => (
            surface.dim(surface.either("▸", ">")),
            "is running".to_owned(),
        ),
    };
    let events = human::counted(usize::try_from(view.events).unwrap_or(usize::MAX), "event");
    let hint = match view.status {
        RunStatus::Failed => reason(view).unwrap_or_default(),
        RunStatus::Paused => format!("{events}   noetl resume {id}"),
        RunStatus::Running => format!("{events}   noetl events {id} -f"),
        RunStatus::Completed | RunStatus::Cancelled => format!("{events}   noetl show {id}"),
    };
    format!(
        "{mark} {} {says}   {}",
        surface.strong(name),
        surface.dim(&hint)
    )
}

/// Returns where a run failed: `fetch: 3 of 10,000 iterations failed`.
fn reason(view: &RunView) -> Option<String> {
    let step = view.failed_step()?;
    let what = match &step.lap {
        Some(lap) if lap.failed_count() > 0 => {
            let (failed, total) = (lap.failed_count(), lap.total);
            format!(
                "{} of {} iterations failed",
                human::count(failed),
                human::count(total)
            )
        }
        _ => step
            .failure()
            .map(|(_, failure)| failure.error.code.clone())?,
    };
    Some(format!("{}: {what}", step.step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{Log, at, ended, error, failed, finished, task};
    use model::event::{At, Body, Ending, Nothing, StepDone};
    use model::outcome::Outcome;
    use serde_json::json;

    #[test]
    fn a_step_line_has_mark_name_result_and_time() {
        let mut log = Log::begun();
        log.push(at("greet"), Body::StepStarted(Nothing {}))
            .push(
                task("greet", None, "a", 1),
                Body::TaskDone(Box::new(ended(&Outcome::ok(json!({"n": 1}))))),
            )
            .push(at("greet"), Body::StepDone(StepDone::default()));
        let view = RunView::of(&log.events);
        let columns = Columns::of(None, Surface::PLAIN);
        let line = step(
            &view.steps[0],
            None,
            (columns, Surface::PLAIN),
            view.seen_at,
        );
        assert!(line.starts_with("✓ greet"), "{line}");
        assert!(line.contains("{n: 1}") && line.ends_with("2ms"), "{line}");
    }

    #[test]
    fn the_last_line_says_how_the_run_ended_and_where_it_failed() {
        let mut log = Log::begun();
        let broken = error("BROKEN", "load");
        log.push(at("load"), Body::StepFailed(Box::new(failed(&broken))))
            .push(At::default(), finished(Ending::Error, Some(broken)));
        let view = RunView::of(&log.events);
        let line = footer(&view, "demo", "7", view.seen_at, Surface::PLAIN);
        assert_eq!(line, "✗ demo failed after 2ms   load: BROKEN");
    }
}
