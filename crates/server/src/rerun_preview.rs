//! What a rerun would do, without starting it.
//!
//! Input: a prepared rerun. Output: a [`RerunPreview`]. The engine makes the same decision as for the rerun itself, and
//! the preview describes the events of that decision, which are then dropped. It costs as much as a rerun: the log of
//! the original execution is read up to the step to start from.

use std::collections::BTreeSet;

use engine::{DecideError, Input, Stamp};
use language::playbook::Playbook;
use language::template::LoadedValues;
use model::event::{Event, EventBody, ReusedPart, ReusedRecord};
use model::id::{EventId, ExecutionId, IdBlock, Name};
use model::raw::RawJson;
use serde_json::{Map, Value};
use wire::api::{RerunPreview, RerunRequest, ReusedIterationCount, ReusedStepEntry};

use crate::Server;
use crate::playbook_diff::{ComparedPlaybooks, diff_playbooks};
use crate::rerun::PreparedRerun;
use crate::submit::SubmitError;

impl Server {
    /// Describes what a rerun with this request would do, or why it would be refused. Credentials are not checked.
    pub async fn preview_rerun(&self, id: ExecutionId, rerun: RerunRequest) -> Result<RerunPreview, SubmitError> {
        let prepared = self.prepare_rerun(self.new_execution_id(), id, rerun).await?;
        let PreparedRerun {
            original,
            registered,
            start,
        } = prepared;
        let earlier_inputs = start.reuse.as_ref().map(|reuse| reuse.workload.clone());
        let net = &registered.net;
        net.check_payload_size(start.payload.as_ref())?;
        let request = start.into_request(&self.shared, &registered);
        let stamp = Stamp {
            now: self.shared.store.now(),
            // The events are dropped, so their IDs need not be unique.
            ids: IdBlock::starting_at(EventId(1)),
        };
        let merged_inputs = request
            .reuse
            .as_ref()
            .map(|reuse| reuse.merged_workload(request.payload.as_ref()));
        let input = Input::Submit(Box::new(request));
        let events = match engine::decide(net, None, input, stamp, &LoadedValues::default()) {
            Ok(decision) => decision.events,
            // The run would start: only the first tasks need data that is not loaded here.
            Err(DecideError::Needs(_)) => Vec::new(),
            Err(DecideError::Refused(refusal)) => return Err(refusal.into()),
        };
        let outline = RerunOutline::from_events(&events, &net.playbook);
        let new_inputs = outline.inputs.or(merged_inputs).unwrap_or_default();
        let difference = if original.playbook_version == registered.entry.version {
            None
        } else {
            let before = self.find_version(&original, original.playbook_version).await?;
            Some(diff_playbooks(&ComparedPlaybooks {
                path: original.path.as_str(),
                before: (original.playbook_version, &before.net.playbook),
                after: (Some(registered.entry.version), &net.playbook),
            }))
        };
        Ok(RerunPreview {
            execution_id: id,
            path: original.path.to_string(),
            from_version: original.playbook_version,
            version: registered.entry.version,
            reused_steps: outline.reused_steps,
            reused_iterations: outline.reused_iterations,
            later_steps: list_later_steps(&net.playbook, &outline.first_steps),
            first_steps: outline.first_steps,
            changed_inputs: list_changed_inputs(earlier_inputs.as_ref(), &new_inputs),
            difference,
        })
    }
}

/// What the first events of a rerun record.
#[derive(Debug, Default)]
struct RerunOutline {
    inputs: Option<Map<String, Value>>,
    /// Number of reused tasks of a step whose end was not read yet.
    tasks: u32,
    reused_steps: Vec<ReusedStepEntry>,
    reused_iterations: Option<ReusedIterationCount>,
    first_steps: Vec<Name>,
}

impl RerunOutline {
    fn from_events(events: &[Event], playbook: &Playbook) -> Self {
        let mut outline = Self::default();
        for event in events {
            match &event.body {
                EventBody::ExecutionRequested(requested) => {
                    outline.inputs = requested.workload.parse_as().ok();
                }
                EventBody::StepReused(record) => {
                    if let Some(step) = &event.location.step {
                        outline.add_reused(step, record);
                    }
                }
                EventBody::WorkflowStarted(started) => {
                    let tokens = started.tokens.iter().flatten().map(|token| token.step.clone());
                    outline.first_steps = match &started.tokens {
                        Some(_) => unique_names(tokens),
                        None => vec![started.entry.clone()],
                    };
                }
                _ => {}
            }
        }
        if outline.first_steps.is_empty() {
            outline.first_steps.push(playbook.entry().name.clone());
        }
        outline
    }

    fn add_reused(&mut self, step: &Name, record: &ReusedRecord) {
        match &record.part {
            // The tasks of a step precede its end.
            ReusedPart::Task { .. } => self.tasks += 1,
            ReusedPart::Step(end) => self.reused_steps.push(ReusedStepEntry {
                step: step.clone(),
                ok: end.ok,
                execution_id: record.execution_id,
                seq: record.seq,
                tasks: std::mem::take(&mut self.tasks),
            }),
            ReusedPart::Iterations(iterations) => {
                let ranges = iterations.items.iter().flat_map(|set| &set.ranges);
                self.reused_iterations = Some(ReusedIterationCount {
                    step: step.clone(),
                    total: iterations.total,
                    reused: ranges.map(|(from, to)| to - from).sum(),
                });
            }
        }
    }
}

fn unique_names(names: impl Iterator<Item = Name>) -> Vec<Name> {
    let mut unique = BTreeSet::new();
    names.filter(|name| unique.insert(name.clone())).collect()
}

/// The steps that arcs lead to, and the final step, without the first ones.
fn list_later_steps(playbook: &Playbook, first_steps: &[Name]) -> Vec<Name> {
    let mut reached: BTreeSet<Name> = first_steps.iter().cloned().collect();
    let mut pending: Vec<Name> = first_steps.to_vec();
    while let Some(step) = pending.pop().and_then(|name| playbook.step(name.as_str())) {
        let targets = step.next.arcs.iter().map(|arc| &arc.step);
        pending.extend(targets.filter(|target| reached.insert((*target).clone())).cloned());
    }
    reached.extend(playbook.executor.final_step.clone());
    let steps = playbook.steps.iter().map(|step| &step.name);
    let later = steps.filter(|name| reached.contains(*name) && !first_steps.contains(*name));
    later.cloned().collect()
}

/// The names of the inputs whose values differ.
fn list_changed_inputs(earlier: Option<&RawJson>, new: &Map<String, Value>) -> Vec<String> {
    let earlier = match earlier.map(RawJson::to_value) {
        Some(Value::Object(inputs)) => inputs,
        _ => Map::new(),
    };
    let changed = new.iter().filter(|(name, value)| earlier.get(*name) != Some(value));
    let removed = earlier.keys().filter(|name| !new.contains_key(*name));
    changed.map(|(name, _)| name).chain(removed).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
        executor: {spec: {final_step: clean}}\nworkflow:\n\
        \x20 - {step: a, tool: {kind: noop}, next: [{step: b}, {step: c}]}\n\
        \x20 - {step: b, tool: {kind: noop}, next: [{step: d}]}\n\
        \x20 - {step: c, tool: {kind: noop}}\n\
        \x20 - {step: d, tool: {kind: noop}, next: [{step: b}]}\n\
        \x20 - {step: clean, tool: {kind: noop}}\n";

    #[test]
    fn later_steps_follow_arcs_once_and_end_with_the_final_step() {
        let parsed = language::playbook::parse("p.yaml", TEXT.as_bytes());
        let playbook = parsed.playbook.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
        let later = |first: &[&str]| {
            let first: Vec<Name> = first.iter().map(|name| Name::from(*name)).collect();
            let later = list_later_steps(&playbook, &first);
            later.iter().map(Name::to_string).collect::<Vec<_>>()
        };
        assert_eq!(later(&["a"]), ["b", "c", "d", "clean"]);
        assert_eq!(later(&["b"]), ["d", "clean"]);
        assert_eq!(later(&["c", "clean"]), Vec::<String>::new());
    }

    #[test]
    fn inputs_differ_by_value_whether_added_or_removed() {
        let earlier = RawJson::from_serializable(&json!({"a": 1, "b": {"x": 1, "y": 2}, "c": null}));
        let Value::Object(new) = json!({"a": 2, "b": {"y": 2, "x": 1}, "d": 1}) else {
            return;
        };
        assert_eq!(list_changed_inputs(Some(&earlier), &new), ["a", "d", "c"]);
    }
}
