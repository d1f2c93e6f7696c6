//! Plain progress: one line when a step ends, and one line every five seconds for an active loop.

use std::collections::BTreeMap;

use model::id::Name;
use model::time::Time;

use crate::output::Output;
use crate::progress::display::{LineLayout, RunDescription, ShownSteps};
use crate::render::human;
use crate::terminal_style::TerminalStyle;
use crate::view::RunView;

/// Interval between the lines of an active loop, in milliseconds.
const LOOP_INTERVAL_MS: u128 = 5_000;

/// Plain progress display.
pub(crate) struct PlainProgress {
    pub(super) shown_steps: ShownSteps,
    reported_at: BTreeMap<(Name, u32), Time>,
    layout: LineLayout,
}

impl PlainProgress {
    pub(super) fn new(description: &RunDescription, style: TerminalStyle) -> Self {
        Self {
            shown_steps: ShownSteps::default(),
            reported_at: BTreeMap::new(),
            layout: LineLayout::new(description, style),
        }
    }

    pub(super) fn update(&mut self, view: &RunView, description: &RunDescription, now: Time, out: &Output) {
        for step in self.shown_steps.newly_ended(view) {
            let at = step.ended_at.unwrap_or(now);
            let line = self.layout.ended_line(step, description);
            out.info(&format!("{} {line}", human::format_time(at)));
        }
        for line in self.due_loop_lines(view, now) {
            out.info(&format!("{} {line}", human::format_time(now)));
        }
    }

    /// Returns the lines of the loops whose interval has passed.
    fn due_loop_lines(&mut self, view: &RunView, now: Time) -> Vec<String> {
        let mut lines = Vec::new();
        for step in view.active_steps() {
            let Some(loop_view) = &step.loop_view else { continue };
            let key = (step.step.clone(), step.run);
            let reported_at = self.reported_at.entry(key).or_insert(step.started_at);
            if now.since(*reported_at).as_millis() < LOOP_INTERVAL_MS {
                continue;
            }
            *reported_at = now;
            lines.push(format!(
                "{} {}/{} ok={} retrying={} failed={}",
                step.step,
                loop_view.ended_count(),
                loop_view.total,
                loop_view.succeeded,
                step.retrying_count(),
                loop_view.failed_count(),
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{EventLogFixture, loop_started};

    #[test]
    fn loop_progress_is_printed_every_five_seconds() {
        let mut log = EventLogFixture::started();
        log.push_step("each", loop_started(9));
        let view = RunView::from_events(&log.events);
        let description = RunDescription {
            name: "demo".to_owned(),
            id: "7".to_owned(),
            location: String::new(),
            playbook: None,
        };
        let mut plain = PlainProgress::new(&description, TerminalStyle::PLAIN);
        let at = |ms: i64| Time(ms * 1_000);
        assert!(plain.due_loop_lines(&view, at(4_000)).is_empty());
        assert_eq!(
            plain.due_loop_lines(&view, at(5_100)),
            ["each 0/9 ok=0 retrying=0 failed=0"]
        );
        assert!(plain.due_loop_lines(&view, at(6_000)).is_empty());
    }
}
