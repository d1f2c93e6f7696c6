//! The bodies that one log refers to.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use model::event::{Event, EventBody};
use model::events;
use model::id::{ExecutionId, StepRunId};
use model::manifest;
use model::result_ref::{BodyScope, RELEASED_KIND, RefKind, ResultRef};
use model::time::Time;
use serde_json::{Map, Value};

/// The end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecutionEnd {
    /// It is still running.
    Running,
    /// It ended at this time.
    EndedAt(Time),
}

impl ExecutionEnd {
    /// Whether the bodies of the execution are still retained.
    pub(super) fn is_retained(self, now: Time, retention: Duration) -> bool {
        match self {
            Self::Running => true,
            Self::EndedAt(end) => now < end.after(retention),
        }
    }
}

/// What is retained for an execution at a point in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionState {
    /// Whether bodies of the execution are retained.
    pub(super) is_execution_retained: bool,
    /// Whether bodies of the root of its tree are retained.
    pub(super) is_root_retained: bool,
    /// Current time.
    pub(super) now: Time,
}

/// The references in a log, and the events that end their lifetimes.
#[derive(Debug, Default)]
pub(super) struct LiveReferences {
    references: Vec<ReferenceUse>,
    /// Hashes outside of references. Their purpose is unknown, so they are retained as long as the execution.
    unattributed_hashes: Vec<String>,
    routed: HashSet<StepRunId>,
    released: HashSet<String>,
    /// Executions whose logs this one refers to; their bodies live as long as it does.
    pub(super) pinned_executions: BTreeSet<ExecutionId>,
}

/// A reference in an event.
#[derive(Debug)]
struct ReferenceUse {
    sha256: String,
    uri: String,
    scope: BodyScope,
    expires_at: Option<Time>,
    run: Option<StepRunId>,
}

impl LiveReferences {
    /// Adds the references of an event.
    pub(super) fn add_event(&mut self, event: &Event) {
        match &event.body {
            EventBody::NextEvaluated(next) => {
                if !next.held && next.error.is_none() {
                    self.routed.extend(event.location.step_run_id());
                }
            }
            EventBody::ExecutionRequested(requested) => {
                if let Some(rerun) = &requested.rerun {
                    self.pinned_executions.extend(&rerun.pins);
                }
            }
            events!(
                RequestEvaluated PlaybookStarted PlaybookPaused PlaybookResumed PlaybookSwitched PlaybookFinished
                PlaybookProcessed WorkflowStarted WorkflowFinished CancelRequested ExecutionRetried StepReused
                SignalReceived TimerSet TimerFired AdmitEvaluated StepScheduled CtxPatched CommandIssued CommandClaimed
                CommandExpired CommandFailed StepStarted StepDone StepFailed TaskStarted AttemptStarted AttemptDone
                AttemptFailed TaskDone TaskFailed PolicyEvaluated LoopStarted FrameClaimed IterationScheduled
                IterationStarted IterationDone IterationFailed LoopDone ResultStored ManifestUpdated BatchAccepted
                BatchProcessing BatchCompleted BatchFailed
            ) => {}
        }
        let payload = event.body.payload();
        if payload.text().contains(RELEASED_KIND) || find_hashes(payload.text()).next().is_some() {
            self.scan_value(&payload.to_value(), event.location.step_run_id().as_ref());
        }
    }

    fn scan_value(&mut self, value: &Value, run: Option<&StepRunId>) {
        match value {
            Value::Object(map) => self.scan_map(map, run),
            Value::Array(items) => items.iter().for_each(|item| self.scan_value(item, run)),
            Value::String(text) => self
                .unattributed_hashes
                .extend(find_hashes(text).map(str::to_ascii_lowercase)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn scan_map(&mut self, map: &Map<String, Value>, run: Option<&StepRunId>) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let (Some(RELEASED_KIND), Some(uri)) = (text("kind"), text("uri")) {
            self.released.insert(uri.to_owned());
        } else if let Some(reference) = ResultRef::from_map(map) {
            // The parts of a manifest are in the log of the execution that its URI names.
            let manifest_owner = manifest::execution_of_uri(&reference.uri);
            let manifest_owner = manifest_owner.filter(|_| reference.kind == RefKind::Manifest);
            self.pinned_executions.extend(manifest_owner);
            for sha256 in reference.hashes() {
                self.references.push(ReferenceUse {
                    sha256,
                    uri: reference.uri.clone(),
                    scope: reference.scope,
                    expires_at: reference.expires_at,
                    run: run.cloned(),
                });
            }
        } else {
            map.values().for_each(|value| self.scan_value(value, run));
        }
    }

    /// Hashes of the bodies that the log retains.
    pub(super) fn retained_hashes(&self, retention: RetentionState) -> impl Iterator<Item = &str> {
        let alive = self
            .references
            .iter()
            .filter(move |reference_use| self.is_alive(reference_use, retention));
        let loose = self
            .unattributed_hashes
            .iter()
            .filter(move |_| retention.is_execution_retained);
        alive
            .map(|reference_use| reference_use.sha256.as_str())
            .chain(loose.map(String::as_str))
    }

    fn is_alive(&self, reference_use: &ReferenceUse, retention: RetentionState) -> bool {
        let has_expired = reference_use.expires_at.is_some_and(|time| time <= retention.now);
        if has_expired || self.released.contains(&reference_use.uri) {
            return false;
        }
        match reference_use.scope {
            BodyScope::Permanent => true,
            BodyScope::Execution => retention.is_execution_retained,
            BodyScope::Workflow => retention.is_execution_retained || retention.is_root_retained,
            // Without a step run, the reference is retained as long as the execution.
            BodyScope::Step => {
                retention.is_execution_retained
                    && !reference_use.run.as_ref().is_some_and(|run| self.routed.contains(run))
            }
        }
    }
}

/// Every sequence of exactly 64 hexadecimal digits in a text.
fn find_hashes(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !c.is_ascii_hexdigit());
    parts.filter(|part| part.len() == 64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn retained_hashes(reference: &Value) -> Vec<String> {
        let mut marks = LiveReferences::default();
        marks.scan_value(reference, None);
        let retention = RetentionState {
            is_execution_retained: true,
            is_root_retained: true,
            now: Time(0),
        };
        marks.retained_hashes(retention).map(str::to_owned).collect()
    }

    #[test]
    fn a_compressed_body_is_kept_under_the_hash_that_it_is_stored_under() {
        let (own, stored) = ("ab".repeat(32), "cd".repeat(32));
        let mut reference = json!({
            "kind": "result_ref", "ref": "noetl://execution/1/x", "store": "disk",
            "meta": {"content_type": "application/json", "bytes": 9, "sha256": own},
        });
        assert_eq!(retained_hashes(&reference), std::slice::from_ref(&own));
        reference["meta"]["compression"] = "zstd".into();
        reference["meta"]["stored_sha256"] = stored.clone().into();
        assert_eq!(retained_hashes(&reference), [own, stored]);
    }

    #[test]
    fn the_parts_of_another_runs_manifest_are_looked_for_in_its_log() {
        let mut marks = LiveReferences::default();
        let manifest = json!({
            "kind": "manifest", "ref": "noetl://execution/7/step/a/task/b/run/1/manifest", "store": "log",
            "meta": {"content_type": "application/json", "bytes": 9, "sha256": ""},
        });
        marks.scan_value(&manifest, None);
        assert_eq!(marks.pinned_executions, BTreeSet::from([ExecutionId(7)]));
    }
}
