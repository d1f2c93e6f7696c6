//! Manifests: records the collected results of a pipeline's tasks when the pipeline ends.
//!
//! A task with `accumulate` always has a manifest. Another task has one if it was entered again and some of its bodies
//! are outside the log. A manifest is a rule: the positions of its parts in the log, and how to combine them.

use std::sync::Arc;

use language::playbook::Task;
use language::template::{LazyValue, Need};
use model::command::LabelParts;
use model::event::{EventBody, EventLocation, ReportedEvent, ResultStored};
use model::id::{Seq, StepRunId};
use model::manifest::{Accumulate, ManifestRule, PAGES_LISTED_MAX};
use model::outcome::Outcome;
use model::result_ref::ResultRef;

use crate::decide::decision_builder::{DecisionBuilder, run_location};
use crate::state::LoopRun;

impl DecisionBuilder<'_> {
    /// Records the results that a pipeline's tasks collected, before the event that ends it.
    pub(super) fn record_manifests(&mut self, end: &ReportedEvent) {
        let is_ok = match &end.body {
            EventBody::StepDone(_) | EventBody::IterationDone(_) => true,
            EventBody::StepFailed(_) | EventBody::IterationFailed(_) => false,
            _ => return,
        };
        let net = self.net;
        let Some(run) = end.location.step_run_id() else {
            return;
        };
        let Some(step) = net.playbook.step(run.step.as_str()) else {
            return;
        };
        for task in &step.tasks {
            let location = run_location(&run).with_iteration(end.location.iteration);
            self.record_manifest(&run, task, location, is_ok);
        }
    }

    fn record_manifest(&mut self, run: &StepRunId, task: &Task, location: EventLocation, is_ok: bool) {
        let live = self.state.runs.get(run);
        let Some(pipeline) = live.and_then(|live| live.continuation(location.iteration)) else {
            return;
        };
        let accumulate = task.result.accumulate.as_ref();
        let collected = if accumulate.is_some() {
            pipeline.parts_of(&task.label)
        } else {
            let parts = pipeline.parts.get(&task.label);
            parts.filter(|parts| has_pages_outside(parts)).cloned()
        };
        let Some(parts) = collected else {
            return;
        };
        let location = EventLocation {
            task: Some(task.label.clone()),
            visit: pipeline.visits.get(&task.label).copied().unwrap_or(0),
            ..location
        };
        let Accumulate { strategy, merge_path } = accumulate.cloned().unwrap_or_default();
        let rule = ManifestRule {
            strategy,
            merge_path,
            first: first_part(&parts),
            seq: self.state.seq.next(),
            parts: parts.by_page.len() as u64,
            pages: listed_pages(&parts),
            is_loop: false,
            is_result: is_ok && accumulate.is_some(),
            ends_pipeline: is_ok && accumulate.is_some() && pipeline.last.as_ref() == Some(&task.label),
        };
        let control = Some(&task.result);
        let reference = rule.to_reference(self.state.execution, &location, parts.bytes, control);
        self.emit_manifest(location, reference);
    }

    /// Records the location of loop results that do not fit into `loop.done`.
    pub(super) fn record_loop_manifest(&mut self, id: &StepRunId, progress: &LoopRun) {
        let Accumulate { strategy, merge_path } = Accumulate::default();
        let rule = ManifestRule {
            strategy,
            merge_path,
            first: progress.started,
            seq: self.state.seq.next(),
            parts: progress.total,
            pages: Vec::new(),
            is_loop: true,
            is_result: false,
            ends_pipeline: false,
        };
        let location = run_location(id);
        let reference = rule.to_reference(self.state.execution, &location, 0, None);
        self.emit_manifest(location, reference);
    }

    fn emit_manifest(&mut self, location: EventLocation, reference: ResultRef) {
        let result_ref = Box::new(reference);
        self.emit(location, EventBody::ManifestUpdated(ResultStored { result_ref }));
    }

    /// Whether this turn recorded manifests of a loop's iterations. They are read from the log, so they must be
    /// committed first.
    pub(super) fn has_new_manifests(&self, id: &StepRunId) -> bool {
        self.events.iter().any(|event| {
            matches!(event.body, EventBody::ManifestUpdated(_))
                && event.location.iteration.is_some()
                && event.location.step_run_id().as_ref() == Some(id)
        })
    }

    /// Returns what must be loaded to read a manifest of this turn, or `None` if this turn recorded no such manifest.
    /// If nothing is missing, adds the combined parts to the loaded bodies.
    pub(super) fn needs_of_manifest(&mut self, reference: &ResultRef) -> Option<Vec<Need>> {
        let rule = ManifestRule::from_reference(reference)?;
        let recorded = self.events.iter().find(|event| event.seq == rule.seq)?;
        let (run, iteration) = (recorded.location.step_run_id()?, recorded.location.iteration);
        let label = recorded.location.task.clone()?;
        let pipeline = self.state.runs.get(&run)?.continuation(iteration)?;
        let parts = pipeline.parts_of(&label)?;
        let mut missing = Vec::new();
        let mut bodies = Vec::new();
        for (_, seq) in parts.by_page {
            let need = Need::Outcome(seq);
            if !self.loaded.outcomes.contains_key(&seq) && !self.load_own_event(&need) {
                missing.push(need);
                continue;
            }
            match &*self.loaded.outcomes[&seq] {
                Outcome::Error(_) => {}
                Outcome::Ok(success) => match &success.reference {
                    None => bodies.push(success.result.clone()),
                    Some(part) => match self.loaded.bodies.get(&part.uri) {
                        Some(body) => bodies.push(body.json().clone()),
                        None => missing.push(Need::Body(part.clone())),
                    },
                },
            }
        }
        let unavailable = |need: &Need| match need {
            Need::Body(part) => self.loaded.unavailable.get(&part.uri).cloned(),
            _ => None,
        };
        let uri = reference.uri.clone();
        if let Some(reason) = missing.iter().find_map(unavailable) {
            Arc::make_mut(&mut self.loaded).unavailable.insert(uri, reason);
            return Some(Vec::new());
        }
        if missing.is_empty() {
            let combined = LazyValue::new(rule.combiner().combine(bodies));
            Arc::make_mut(&mut self.loaded).bodies.insert(uri, combined);
        }
        Some(missing)
    }
}

fn has_pages_outside(parts: &LabelParts) -> bool {
    parts.is_outside && parts.by_page.len() > 1
}

fn listed_pages(parts: &LabelParts) -> Vec<(i64, Seq)> {
    if parts.by_page.len() > PAGES_LISTED_MAX {
        return Vec::new();
    }
    parts.by_page.clone()
}

fn first_part(parts: &LabelParts) -> Seq {
    let seqs = parts.by_page.iter().map(|(_, seq)| *seq);
    seqs.min().unwrap_or_default()
}
