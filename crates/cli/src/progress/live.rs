//! Live progress on a terminal: one line for each active step, with a bar for loops; finished steps scroll up.

use std::collections::BTreeMap;
use std::fmt::Write;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::id::Name;
use model::time::Time;

use crate::progress::display::{LineLayout, RunDescription, ShownSteps};
use crate::render::{human, lines};
use crate::terminal_style::TerminalStyle;
use crate::view::{LoopView, RunView, StepView};

/// Maximum number of active steps to show.
const LINES_MAX: usize = 12;

/// Live progress display.
pub(crate) struct LiveProgress {
    multi: MultiProgress,
    style: ProgressStyle,
    bars: BTreeMap<(Name, u32), ProgressBar>,
    pub(super) shown_steps: ShownSteps,
    layout: LineLayout,
}

impl LiveProgress {
    pub(super) fn new(description: &RunDescription, style: TerminalStyle) -> Self {
        let ticks: &[&str] = if style.has_unicode {
            &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "]
        } else {
            &["-", "\\", "|", "/", " "]
        };
        let progress_style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        Self {
            multi: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            style: progress_style.tick_strings(ticks),
            bars: BTreeMap::new(),
            shown_steps: ShownSteps::default(),
            layout: LineLayout::new(description, style),
        }
    }

    pub(super) fn update(&mut self, view: &RunView, description: &RunDescription, now: Time) {
        for step in self.shown_steps.newly_ended(view) {
            if let Some(bar) = self.bars.remove(&(step.step.clone(), step.run)) {
                bar.finish_and_clear();
            }
            self.print_message(&self.layout.ended_line(step, description));
        }
        for step in view.active_steps().take(LINES_MAX) {
            let key = (step.step.clone(), step.run);
            let bar = self.bars.entry(key).or_insert_with(|| {
                let bar = self.multi.add(ProgressBar::new_spinner());
                bar.set_style(self.style.clone());
                bar
            });
            bar.set_message(active_line(step, description, self.layout, now));
            bar.tick();
        }
    }

    pub(super) fn print_message(&self, text: &str) {
        // If the terminal is closed, the text cannot be shown anywhere.
        let _ = self.multi.println(text.trim_end());
    }

    pub(super) fn end(self) {
        for bar in self.bars.values() {
            bar.finish_and_clear();
        }
        let _ = self.multi.clear();
    }
}

/// Returns the line of an active step; two lines for a loop.
fn active_line(step: &StepView, description: &RunDescription, layout: LineLayout, now: Time) -> String {
    let style = layout.style;
    let kind = lines::step_view_kind(description.playbook.as_deref(), step);
    let head = layout.columns.pad_head(step.step.as_str(), &kind);
    let elapsed = step.elapsed_ms(now);
    if let Some(loop_view) = &step.loop_view {
        let bar = loop_line(loop_view, elapsed, style);
        return format!("{head}  {bar}\n      {}", style.dim(&counts_line(step, loop_view)));
    }
    let elapsed = style.dim(&human::format_duration_ms(elapsed));
    let activity = describe_activity(step);
    let activity = if step.retrying_count() > 0 {
        style.warn(&activity)
    } else {
        activity
    };
    format!("{head}  {activity}  {elapsed}")
}

/// Describes what the tasks of a step without a loop are doing.
fn describe_activity(step: &StepView) -> String {
    let describe = |((_, label), task): (&(Option<u64>, Name), &crate::view::OpenTask)| match (
        &task.awaited,
        task.is_retrying,
        task.attempts_max,
    ) {
        (Some(target), _, _) => format!("{label} waits for {target}"),
        (None, true, Some(max)) => format!("{label} retrying, attempt {} of {max}", task.attempt),
        (None, true, None) => format!("{label} retrying, attempt {}", task.attempt),
        (None, false, _) => label.to_string(),
    };
    step.open_tasks
        .iter()
        .take(3)
        .map(describe)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `6,412 / 10,000  ████▌···  64%  812/s  eta 4s`
fn loop_line(loop_view: &LoopView, elapsed_ms: u64, style: TerminalStyle) -> String {
    let ended = loop_view.ended_count();
    let (done, total) = (human::format_count(ended), human::format_count(loop_view.total));
    let percent = (ended * 100).checked_div(loop_view.total).unwrap_or(100);
    let cells = if style.columns.unwrap_or(80) < 100 { 10 } else { 20 };
    let bar = style.progress_bar(ended, loop_view.total, cells);
    let rate = (ended * 1_000).checked_div(elapsed_ms).unwrap_or(0);
    let remaining = loop_view.total.saturating_sub(ended);
    let eta = match (ended, remaining) {
        (0, _) | (_, 0) => String::new(),
        _ => format!(
            "  eta {}",
            human::format_duration_ms(elapsed_ms.saturating_mul(remaining) / ended)
        ),
    };
    format!("{done} / {total}  {bar}  {percent}%  {rate}/s{eta}")
}

/// `ok 6,398   retrying 11   failed 3   in flight 16   p95 38ms`
fn counts_line(step: &StepView, loop_view: &LoopView) -> String {
    let mut text = format!(
        "ok {}   retrying {}   failed {}   in flight {}",
        human::format_count(loop_view.succeeded),
        step.retrying_count(),
        human::format_count(loop_view.failed_count()),
        loop_view.in_flight_count(),
    );
    if let Some(p95) = loop_view.p95_ms() {
        let _ = write!(text, "   p95 {}", human::format_duration_ms(p95));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{EventLogFixture, loop_started, step_location};
    use model::event::{EventBody, IterationDone};

    #[test]
    fn a_loop_line_has_counts_bar_rate_and_eta() {
        let mut log = EventLogFixture::started();
        log.push_step("each", loop_started(4));
        for index in 0..2 {
            let done = EventBody::IterationDone(IterationDone { set_ctx: None });
            log.push(step_location("each").with_iteration(Some(index)), done);
        }
        let view = RunView::from_events(&log.events);
        let loop_view = view.steps[0].loop_view.as_ref().unwrap();
        let line = loop_line(loop_view, 1_000, TerminalStyle::PLAIN);
        assert_eq!(line, "2 / 4  █████·····  50%  2/s  eta 1.0s");
        let line = counts_line(&view.steps[0], loop_view);
        assert!(
            line.starts_with("ok 2   retrying 0   failed 0   in flight 0   p95"),
            "{line}"
        );
    }
}
