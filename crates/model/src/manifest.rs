//! Manifests: results that consist of many parts. A rule lists the parts; they are never copied.
//!
//! A manifest is a reference without a body of its own. Its rule states where in the log its parts are and how they
//! combine. Parts are the results of a task's visits, by page, or of a loop's iterations, by index.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use crate::event::{Event, EventBody, EventLocation, RecordedResult, ResultStored, TaskEnded};
use crate::id::{ExecutionId, Name, Seq};
use crate::merge::merge_into;
use crate::outcome::{Outcome, Success};
use crate::playbook::ResultControl;
use crate::result_ref::{BodyMeta, RefKind, ResultRef};

/// Store name in the reference of a manifest: its parts are found through the log.
pub const MANIFEST_STORE: &str = "log";

/// A manifest with more pages does not list the event of each page.
pub const PAGES_LISTED_MAX: usize = 16;

/// How parts combine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CombineStrategy {
    /// Into one list: a list adds its elements; any other value adds itself.
    #[default]
    Append,
    /// Into one map: each part is merged over the one before it.
    Merge,
    /// Only the last part counts.
    Replace,
}

impl CombineStrategy {
    /// The name of the strategy.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Merge => "merge",
            Self::Replace => "replace",
        }
    }
}

/// How the parts of several visits are collected: `spec.result.accumulate`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accumulate {
    /// How parts combine.
    pub strategy: CombineStrategy,
    /// JSONPath of the value to combine; by default the whole body.
    pub merge_path: Option<String>,
}

/// Where the parts of a manifest are, and how they combine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRule {
    /// How parts combine.
    pub strategy: CombineStrategy,
    /// JSONPath of the value to combine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_path: Option<String>,
    /// The first event that can record a part.
    pub first: Seq,
    /// The `result.manifest.updated` event, which names the owner of the parts; no part comes after it.
    pub seq: Seq,
    /// The number of parts.
    pub parts: u64,
    /// The event of each page, in page order, if there are few: then the log need not be searched for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<(i64, Seq)>,
    /// Whether the parts are a loop's iterations, rather than a task's visits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loop: bool,
    /// Whether the manifest replaces the result of its task. Otherwise the task also has a result of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_result: bool,
    /// Whether that task ended its pipeline, so that the manifest is also the result of the step or iteration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_pipeline: bool,
}

impl ManifestRule {
    /// The rule, if the reference is a manifest.
    pub fn from_reference(reference: &ResultRef) -> Option<Self> {
        if reference.kind != RefKind::Manifest {
            return None;
        }
        serde_json::from_value(Value::Object(reference.meta.location.clone())).ok()
    }

    /// The reference to the parts recorded at `location`; `bytes` is the total size of their bodies.
    pub fn to_reference(
        &self,
        execution: ExecutionId,
        location: &EventLocation,
        bytes: u64,
        control: Option<&ResultControl>,
    ) -> ResultRef {
        let rule = serde_json::to_value(self).expect("a rule is plain data");
        let Value::Object(rule_fields) = rule else {
            unreachable!("a rule is a map")
        };
        ResultRef {
            kind: RefKind::Manifest,
            uri: manifest_uri(execution, location),
            store: MANIFEST_STORE.to_owned(),
            scope: control.and_then(|control| control.scope).unwrap_or_default(),
            expires_at: None,
            meta: BodyMeta {
                content_type: "application/json".to_owned(),
                bytes,
                sha256: String::new(),
                compression: None,
                location: rule_fields,
            },
            extracted: Map::new(),
            keys: Vec::new(),
            preview: None,
        }
    }

    /// The combiner of the parts.
    pub fn combiner(&self) -> PartCombiner {
        PartCombiner::new(self.strategy, self.merge_path.as_deref())
    }
}

/// Returns the execution in the address of a result.
pub fn execution_of_uri(uri: &str) -> Option<ExecutionId> {
    let path = uri.strip_prefix("noetl://execution/")?;
    path.split('/').next()?.parse().ok()
}

/// The address of a manifest of a task's pages or of a loop's iterations.
pub fn manifest_uri(execution: ExecutionId, location: &EventLocation) -> String {
    let step = location.step.as_ref().map_or("", Name::as_str);
    let run = match location.iteration {
        Some(index) => format!("{}.{index}", location.run),
        None => location.run.to_string(),
    };
    match &location.task {
        Some(task) => {
            format!("noetl://execution/{execution}/step/{step}/task/{task}/run/{run}/manifest")
        }
        None => format!("noetl://execution/{execution}/step/{step}/run/{run}/manifest"),
    }
}

/// The outcome that an event records: that of its task, or the manifest of its task's pages.
pub fn outcome_from_event(event: &Event) -> Option<Outcome> {
    match event.body.recorded_result()? {
        RecordedResult::TaskDone(ended) | RecordedResult::TaskFailed(ended) => recorded_outcome(ended),
        RecordedResult::Manifest(stored) => outcome_from_manifest(stored),
        RecordedResult::Attempt(_) => None,
    }
}

/// The JSON text of the inline result of a task's event, on one line; `None` if the result is stored elsewhere or the
/// task failed. Cheaper than parsing the whole outcome.
pub fn inline_result(event: &Event) -> Option<&str> {
    #[derive(Deserialize)]
    struct InlineOutcome<'a> {
        #[serde(borrow)]
        status: Cow<'a, str>,
        #[serde(default, borrow)]
        result: Option<&'a RawValue>,
        #[serde(default)]
        reference: Option<IgnoredAny>,
    }
    let EventBody::TaskDone(ended) = &event.body else {
        return None;
    };
    let outcome: InlineOutcome<'_> = serde_json::from_str(ended.outcome.text()).ok()?;
    let is_inline = outcome.status == "ok" && outcome.reference.is_none() && ended.result_ref.is_none();
    let text = outcome.result.map_or("null", RawValue::get);
    (is_inline && !text.contains(['\n', '\r'])).then_some(text)
}

/// Whether an event records the result of its pipeline, unless a later event of the same pipeline does: the end of a
/// task, or the manifest of the task that ended last.
pub fn is_pipeline_outcome(event: &Event) -> bool {
    match event.body.recorded_result() {
        Some(RecordedResult::TaskDone(_) | RecordedResult::TaskFailed(_)) => true,
        Some(RecordedResult::Manifest(stored)) => {
            ManifestRule::from_reference(&stored.result_ref).is_some_and(|rule| rule.is_result && rule.ends_pipeline)
        }
        Some(RecordedResult::Attempt(_)) | None => false,
    }
}

/// The outcome of a task, with the reference that its event carries.
fn recorded_outcome(ended: &TaskEnded) -> Option<Outcome> {
    let mut outcome = ended.outcome.parse_as().ok()?;
    if let (Outcome::Ok(success), Some(reference)) = (&mut outcome, &ended.result_ref) {
        success.reference.get_or_insert_with(|| reference.clone());
    }
    Some(outcome)
}

/// The outcome of a manifest that replaces its task's result.
fn outcome_from_manifest(stored: &ResultStored) -> Option<Outcome> {
    ManifestRule::from_reference(&stored.result_ref).filter(|rule| rule.is_result)?;
    Some(Outcome::Ok(Success {
        reference: Some(stored.result_ref.clone()),
        ..Success::default()
    }))
}

/// Combines parts.
#[derive(Debug)]
pub struct PartCombiner {
    strategy: CombineStrategy,
    path: Option<JsonPath>,
}

impl PartCombiner {
    /// Combines the values of a path in each part by a strategy.
    pub fn new(strategy: CombineStrategy, merge_path: Option<&str>) -> Self {
        Self {
            strategy,
            // The playbook reader rejects invalid paths.
            path: merge_path.and_then(|path| JsonPath::parse(path).ok()),
        }
    }

    /// The elements that a part adds to a list.
    pub fn part_elements(&self, body: Value) -> Vec<Value> {
        let mut elements = Vec::new();
        for value in self.select_values(body) {
            match value {
                Value::Array(items) => elements.extend(items),
                other => elements.push(other),
            }
        }
        elements
    }

    /// The combined value of all parts, in their order.
    pub fn combine(&self, parts: impl IntoIterator<Item = Value>) -> Value {
        let parts = parts.into_iter();
        match self.strategy {
            CombineStrategy::Append => parts.flat_map(|part| self.part_elements(part)).collect(),
            CombineStrategy::Merge => {
                let mut base = Value::Object(Map::new());
                for values in parts.flat_map(|part| self.select_values(part)) {
                    match (&mut base, values) {
                        (Value::Object(base), Value::Object(overlay)) => merge_into(base, overlay),
                        (base, other) => *base = other,
                    }
                }
                base
            }
            CombineStrategy::Replace => {
                let mut values = parts.last().map_or_else(Vec::new, |part| self.select_values(part));
                match values.len() {
                    0 => Value::Null,
                    1 => values.remove(0),
                    _ => Value::Array(values),
                }
            }
        }
    }

    fn select_values(&self, body: Value) -> Vec<Value> {
        match &self.path {
            None => vec![body],
            Some(path) => path.query(&body).all().into_iter().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pages() -> Vec<Value> {
        vec![
            json!({"data": {"items": [1, 2], "by": {"a": {"n": 1}}}}),
            json!({"data": {}}),
            json!({"data": {"items": [3], "by": {"a": {"m": 2}, "b": []}}}),
        ]
    }

    fn collected(strategy: CombineStrategy, path: Option<&str>) -> Value {
        PartCombiner::new(strategy, path).combine(pages())
    }

    #[test]
    fn appending_concatenates_what_the_path_finds() {
        let items = Some("$.data.items");
        assert_eq!(collected(CombineStrategy::Append, items), json!([1, 2, 3]));
        assert_eq!(collected(CombineStrategy::Append, Some("$.data.by.a.n")), json!([1]));
        assert_eq!(collected(CombineStrategy::Append, None), Value::Array(pages()));
    }

    #[test]
    fn merging_lays_maps_over_one_another() {
        let by = collected(CombineStrategy::Merge, Some("$.data.by"));
        assert_eq!(by, json!({"a": {"n": 1, "m": 2}, "b": []}));
        assert_eq!(collected(CombineStrategy::Merge, Some("$.nothing")), json!({}));
    }

    #[test]
    fn replacing_takes_the_last_part() {
        let last = collected(CombineStrategy::Replace, Some("$.data.items"));
        assert_eq!(last, json!([3]));
        assert_eq!(collected(CombineStrategy::Replace, Some("$.x")), Value::Null);
    }

    #[test]
    fn a_manifest_rule_round_trips_through_its_reference() {
        let rule = ManifestRule {
            strategy: CombineStrategy::Append,
            merge_path: Some("$.data".to_owned()),
            first: Seq(7),
            seq: Seq(20),
            parts: 3,
            pages: vec![(1, Seq(7)), (2, Seq(9)), (3, Seq(15))],
            is_loop: false,
            is_result: true,
            ends_pipeline: true,
        };
        let location = EventLocation {
            step: Some("fetch".into()),
            run: 2,
            iteration: Some(4),
            task: Some("page".into()),
            ..EventLocation::default()
        };
        let reference = rule.to_reference(ExecutionId(9), &location, 100, None);
        let uri = "noetl://execution/9/step/fetch/task/page/run/2.4/manifest";
        assert_eq!(reference.uri, uri);
        assert_eq!(execution_of_uri(uri), Some(ExecutionId(9)));
        let text = serde_json::to_string(&reference).unwrap();
        let back: ResultRef = serde_json::from_str(&text).unwrap();
        assert_eq!(ManifestRule::from_reference(&back), Some(rule));
    }
}
