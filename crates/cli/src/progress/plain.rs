//! Plain progress: one line when a step ends, and one line every five seconds for an active loop.

use std::collections::BTreeMap;

use model::id::Name;
use model::time::Time;

use crate::out::Out;
use crate::progress::show::{Layout, Shown, Subject};
use crate::render::human;
use crate::surface::Surface;
use crate::view::RunView;

/// Interval between the lines of an active loop, in milliseconds.
const LOOP_EVERY_MS: u128 = 5_000;

/// Plain progress display.
pub(crate) struct Plain {
    pub(super) shown: Shown,
    told: BTreeMap<(Name, u32), Time>,
    layout: Layout,
}

impl Plain {
    pub(super) fn new(subject: &Subject, surface: Surface) -> Self {
        Self {
            shown: Shown::default(),
            told: BTreeMap::new(),
            layout: Layout::of(subject, surface),
        }
    }

    pub(super) fn update(&mut self, view: &RunView, subject: &Subject, now: Time, out: &Out) {
        for step in self.shown.newly_ended(view) {
            let at = step.ended_at.unwrap_or(now);
            let line = self.layout.ended(step, subject);
            out.note(&format!("{} {line}", human::clock(at)));
        }
        for line in self.loops(view, now) {
            out.note(&format!("{} {line}", human::clock(now)));
        }
    }

    /// Returns the lines of the loops whose interval has passed.
    fn loops(&mut self, view: &RunView, now: Time) -> Vec<String> {
        let mut lines = Vec::new();
        for step in view.active() {
            let Some(lap) = &step.lap else { continue };
            let key = (step.step.clone(), step.run);
            let told = self.told.entry(key).or_insert(step.started_at);
            if now.since(*told).as_millis() < LOOP_EVERY_MS {
                continue;
            }
            *told = now;
            lines.push(format!(
                "{} {}/{} ok={} retrying={} failed={}",
                step.step,
                lap.ended(),
                lap.total,
                lap.succeeded,
                step.retrying(),
                lap.failed_count(),
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::testing::{Log, at, loop_started};

    #[test]
    fn a_loop_is_told_of_every_five_seconds() {
        let mut log = Log::begun();
        log.push(at("each"), loop_started(9));
        let view = RunView::of(&log.events);
        let subject = Subject {
            name: "demo".to_owned(),
            id: "7".to_owned(),
            place: String::new(),
            playbook: None,
        };
        let mut plain = Plain::new(&subject, Surface::PLAIN);
        let at = |ms: i64| Time(ms * 1_000);
        assert!(plain.loops(&view, at(4_000)).is_empty());
        assert_eq!(
            plain.loops(&view, at(5_100)),
            ["each 0/9 ok=0 retrying=0 failed=0"]
        );
        assert!(plain.loops(&view, at(6_000)).is_empty());
    }
}
