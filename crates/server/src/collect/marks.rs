//! The bodies that one log refers to.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use model::event::{Body, Event};
use model::id::{ExecutionId, StepRunId};
use model::manifest;
use model::result_ref::{RELEASED, RefKind, ResultRef, Scope};
use model::time::Time;
use serde_json::{Map, Value};

/// The end of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is still running.
    Open,
    /// It ended at this time.
    At(Time),
}

impl End {
    /// Whether the bodies of the execution are still retained.
    pub(super) fn is_kept(self, now: Time, retention: Duration) -> bool {
        match self {
            Self::Open => true,
            Self::At(end) => now < end.after(retention),
        }
    }
}

/// What is retained for an execution at a point in time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Life {
    /// Whether bodies of the execution are retained.
    pub(super) run: bool,
    /// Whether bodies of the root of its tree are retained.
    pub(super) root: bool,
    /// Current time.
    pub(super) now: Time,
}

/// The references in a log, and the events that end their lifetimes.
#[derive(Debug, Default)]
pub(super) struct Marks {
    references: Vec<Mention>,
    /// Hashes outside of references. Their purpose is unknown, so they are retained as long as the execution.
    loose: Vec<String>,
    routed: HashSet<StepRunId>,
    released: HashSet<String>,
    /// Executions whose logs this one refers to; their bodies live as long as it does.
    pub(super) pins: BTreeSet<ExecutionId>,
}

/// A reference in an event.
#[derive(Debug)]
struct Mention {
    sha256: String,
    uri: String,
    scope: Scope,
    expires_at: Option<Time>,
    run: Option<StepRunId>,
}

impl Marks {
    /// Adds the references of an event.
    pub(super) fn read(&mut self, event: &Event) {
        match &event.body {
            Body::NextEvaluated(next) if !next.held && next.error.is_none() => {
                self.routed.extend(event.at.step_run_id());
            }
            Body::ExecutionRequested(requested) => {
                if let Some(rerun) = &requested.rerun {
                    self.pins.extend(&rerun.pins);
                }
            }
            _ => {}
        }
        let payload = event.body.payload();
        if payload.text().contains(RELEASED) || hashes(payload.text()).next().is_some() {
            self.walk(&payload.value(), event.at.step_run_id().as_ref());
        }
    }

    fn walk(&mut self, value: &Value, run: Option<&StepRunId>) {
        match value {
            Value::Object(map) => self.map(map, run),
            Value::Array(items) => items.iter().for_each(|item| self.walk(item, run)),
            Value::String(text) => self.loose.extend(hashes(text).map(str::to_ascii_lowercase)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn map(&mut self, map: &Map<String, Value>, run: Option<&StepRunId>) {
        let text = |key: &str| map.get(key).and_then(Value::as_str);
        if let (Some(RELEASED), Some(uri)) = (text("kind"), text("uri")) {
            self.released.insert(uri.to_owned());
        } else if let Some(reference) = ResultRef::of(map) {
            // The parts of a manifest are in the log of the execution that its URI names.
            let named = manifest::execution_of(&reference.uri);
            let named = named.filter(|_| reference.kind == RefKind::Manifest);
            self.pins.extend(named);
            for sha256 in reference.hashes() {
                self.references.push(Mention {
                    sha256,
                    uri: reference.uri.clone(),
                    scope: reference.scope,
                    expires_at: reference.expires_at,
                    run: run.cloned(),
                });
            }
        } else {
            map.values().for_each(|value| self.walk(value, run));
        }
    }

    /// Hashes of the bodies that the log retains.
    pub(super) fn kept(&self, life: Life) -> impl Iterator<Item = &str> {
        let alive = self
            .references
            .iter()
            .filter(move |found| self.is_alive(found, life));
        let loose = self.loose.iter().filter(move |_| life.run);
        alive
            .map(|found| found.sha256.as_str())
            .chain(loose.map(String::as_str))
    }

    fn is_alive(&self, found: &Mention, life: Life) -> bool {
        let has_expired = found.expires_at.is_some_and(|time| time <= life.now);
        if has_expired || self.released.contains(&found.uri) {
            return false;
        }
        match found.scope {
            Scope::Permanent => true,
            Scope::Execution => life.run,
            Scope::Workflow => life.run || life.root,
            // Without a step run, the reference is retained as long as the execution.
            Scope::Step => {
                life.run
                    && !found
                        .run
                        .as_ref()
                        .is_some_and(|run| self.routed.contains(run))
            }
        }
    }
}

/// Every sequence of exactly 64 hexadecimal digits in a text.
fn hashes(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !c.is_ascii_hexdigit());
    parts.filter(|part| part.len() == 64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(reference: &Value) -> Vec<String> {
        let mut marks = Marks::default();
        marks.walk(reference, None);
        let life = Life {
            run: true,
            root: true,
            now: Time(0),
        };
        marks.kept(life).map(str::to_owned).collect()
    }

    #[test]
    fn a_compressed_body_is_kept_under_the_hash_that_it_is_stored_under() {
        let (own, stored) = ("ab".repeat(32), "cd".repeat(32));
        let mut reference = json!({
            "kind": "result_ref", "ref": "noetl://execution/1/x", "store": "disk",
            "meta": {"content_type": "application/json", "bytes": 9, "sha256": own},
        });
        assert_eq!(kept(&reference), std::slice::from_ref(&own));
        reference["meta"]["compression"] = "zstd".into();
        reference["meta"]["stored_sha256"] = stored.clone().into();
        assert_eq!(kept(&reference), [own, stored]);
    }

    #[test]
    fn the_parts_of_another_runs_manifest_are_looked_for_in_its_log() {
        let mut marks = Marks::default();
        let manifest = json!({
            "kind": "manifest", "ref": "noetl://execution/7/step/a/task/b/run/1/manifest", "store": "log",
            "meta": {"content_type": "application/json", "bytes": 9, "sha256": ""},
        });
        marks.walk(&manifest, None);
        assert_eq!(marks.pins, BTreeSet::from([ExecutionId(7)]));
    }
}
