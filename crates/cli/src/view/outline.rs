//! Builds the view of a run from its outline. The cost does not depend on the number of iterations.

use model::id::Seq;
use server::LoopOutline;

use crate::view::run::RunView;
use crate::view::steps::{OutlinedCounts, StepStatus, StepView};

impl RunView {
    /// Adds the counts and failures of loops and the last `seq`, after the events of the outline were applied.
    pub(crate) fn complete_outline(&mut self, loops: &[LoopOutline], seq: Seq) {
        for entry in loops {
            let run = &entry.progress.run;
            let is_it = |step: &&mut StepView| step.run == run.run && step.step == run.step;
            if let Some(step) = self.steps.iter_mut().find(is_it) {
                step.add_loop(entry);
            }
        }
        self.events = seq.0;
        self.last_seq = seq;
        self.is_outlined = true;
    }
}

impl StepView {
    fn add_loop(&mut self, entry: &LoopOutline) {
        let progress = &entry.progress;
        let retries = self.retries;
        for event in &entry.events {
            self.fold(event);
        }
        self.retries = retries + progress.retries;
        if self.status != StepStatus::Running {
            self.open_tasks.clear();
        }
        self.unconfirmed_failures.clear();
        let loop_view = self.loop_view.get_or_insert_default();
        loop_view.succeeded = progress.succeeded;
        loop_view.outlined = OutlinedCounts {
            failed: progress.failed.saturating_sub(loop_view.failed.len() as u64),
            in_flight: entry.in_flight,
        };
    }
}
