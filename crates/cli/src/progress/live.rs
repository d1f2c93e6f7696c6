//! Live progress on a terminal: one line for each active step, with a bar for loops; finished steps scroll up.

use std::collections::BTreeMap;
use std::fmt::Write;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::id::Name;
use model::time::Time;

use crate::progress::show::{Layout, Shown, Subject};
use crate::render::{human, lines};
use crate::surface::Surface;
use crate::view::{LoopView, RunView, StepView};

/// Maximum number of active steps to show.
const LINES_MAX: usize = 12;

/// Live progress display.
pub(crate) struct Live {
    multi: MultiProgress,
    style: ProgressStyle,
    bars: BTreeMap<(Name, u32), ProgressBar>,
    pub(super) shown: Shown,
    layout: Layout,
}

impl Live {
    pub(super) fn new(subject: &Subject, surface: Surface) -> Self {
        let ticks: &[&str] = if surface.unicode {
            &["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏", " "]
        } else {
            &["-", "\\", "|", "/", " "]
        };
        let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
        Self {
            multi: MultiProgress::with_draw_target(ProgressDrawTarget::stderr()),
            style: style.tick_strings(ticks),
            bars: BTreeMap::new(),
            shown: Shown::default(),
            layout: Layout::of(subject, surface),
        }
    }

    pub(super) fn update(&mut self, view: &RunView, subject: &Subject, now: Time) {
        for step in self.shown.newly_ended(view) {
            if let Some(bar) = self.bars.remove(&(step.step.clone(), step.run)) {
                bar.finish_and_clear();
            }
            self.say(&self.layout.ended(step, subject));
        }
        for step in view.active().take(LINES_MAX) {
            let key = (step.step.clone(), step.run);
            let bar = self.bars.entry(key).or_insert_with(|| {
                let bar = self.multi.add(ProgressBar::new_spinner());
                bar.set_style(self.style.clone());
                bar
            });
            bar.set_message(active(step, subject, self.layout, now));
            bar.tick();
        }
    }

    pub(super) fn say(&self, text: &str) {
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
fn active(step: &StepView, subject: &Subject, layout: Layout, now: Time) -> String {
    let surface = layout.surface;
    let kind = lines::kind_of(subject.playbook.as_ref(), step);
    let head = layout.columns.head(step.step.as_str(), &kind);
    let elapsed = step.elapsed_ms(now);
    if let Some(lap) = &step.lap {
        let bar = looping(lap, elapsed, surface);
        return format!("{head}  {bar}\n      {}", surface.dim(&counts(step, lap)));
    }
    let took = surface.dim(&human::span_ms(elapsed));
    let doing = doing(step);
    let doing = if step.retrying() > 0 {
        surface.warn(&doing)
    } else {
        doing
    };
    format!("{head}  {doing}  {took}")
}

/// Describes what the tasks of a step without a loop are doing.
fn doing(step: &StepView) -> String {
    let tell = |((_, label), task): (&(Option<u64>, Name), &crate::view::OpenTask)| match (
        &task.waits_for,
        task.retrying,
        task.attempts_max,
    ) {
        (Some(what), _, _) => format!("{label} waits for {what}"),
        (None, true, Some(max)) => format!("{label} retrying, attempt {} of {max}", task.attempt),
        (None, true, None) => format!("{label} retrying, attempt {}", task.attempt),
        (None, false, _) => label.to_string(),
    };
    step.open
        .iter()
        .take(3)
        .map(tell)
        .collect::<Vec<_>>()
        .join(", ")
}

/// `6,412 / 10,000  ████▌···  64%  812/s  eta 4s`
fn looping(lap: &LoopView, elapsed_ms: u64, surface: Surface) -> String {
    let ended = lap.ended();
    let (done, total) = (human::count(ended), human::count(lap.total));
    let percent = (ended * 100).checked_div(lap.total).unwrap_or(100);
    let cells = if surface.columns.unwrap_or(80) < 100 {
        10
    } else {
        20
    };
    let bar = surface.bar(ended, lap.total, cells);
    let rate = (ended * 1_000).checked_div(elapsed_ms).unwrap_or(0);
    let left = lap.total.saturating_sub(ended);
    let eta = match (ended, left) {
        (0, _) | (_, 0) => String::new(),
        _ => format!(
            "  eta {}",
            human::span_ms(elapsed_ms.saturating_mul(left) / ended)
        ),
    };
    format!("{done} / {total}  {bar}  {percent}%  {rate}/s{eta}")
}

/// `ok 6,398   retrying 11   failed 3   in flight 16   p95 38ms`
fn counts(step: &StepView, lap: &LoopView) -> String {
    let mut text = format!(
        "ok {}   retrying {}   failed {}   in flight {}",
        human::count(lap.succeeded),
        step.retrying(),
        human::count(lap.failed_count()),
        lap.in_flight_count(),
    );
    if let Some(p95) = lap.p95_ms() {
        let _ = write!(text, "   p95 {}", human::span_ms(p95));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{Log, at, loop_started};
    use model::event::{Body, IterationDone};

    #[test]
    fn a_loop_line_has_counts_bar_rate_and_eta() {
        let mut log = Log::begun();
        log.push(at("each"), loop_started(4));
        for index in 0..2 {
            let done = Body::IterationDone(IterationDone { set_ctx: None });
            log.push(at("each").iteration(Some(index)), done);
        }
        let view = RunView::of(&log.events);
        let lap = view.steps[0].lap.as_ref().unwrap();
        let line = looping(lap, 1_000, Surface::PLAIN);
        assert_eq!(line, "2 / 4  █████·····  50%  2/s  eta 1.0s");
        let line = counts(&view.steps[0], lap);
        assert!(
            line.starts_with("ok 2   retrying 0   failed 0   in flight 0   p95"),
            "{line}"
        );
    }
}
