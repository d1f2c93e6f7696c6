//! Moves keys of a task that may also be under its `spec`, under `input` or inside `script` to the task itself, so that
//! later code finds them in one place.

use crate::playbook::kinds::KindSpec;
use crate::playbook::read::key_tables::{TASK_IGNORED, TASK_SPEC};
use crate::playbook::read::reader::PlaybookReader;
use crate::yaml::{MapEntry, Node, NodeValue, overlay};

/// Allowed sources of a script.
const SCRIPT_SOURCES: &[(&str, ())] = &[
    ("inline", ()),
    ("file", ()),
    ("http", ()),
    ("https", ()),
    ("gcs", ()),
    ("s3", ()),
];

/// Keys of all tasks that may be under `spec`.
const LIFTED_KEYS: &[&str] = &["input", "args", "auth", "credential"];

/// Returns the keys of a task that only another runtime uses.
pub(crate) fn ignored_keys(kind: &KindSpec) -> Vec<&'static str> {
    let own = kind.ignored_keys.iter();
    own.chain(TASK_IGNORED).copied().collect()
}

/// Moves the task's own keys from `spec` to the task. Returns the task and the remaining `spec`.
pub(crate) fn lift_keys(node: &Node, kind: &KindSpec) -> (Node, Node) {
    let empty = Node::empty_map(node.span);
    let Some(spec) = node.get("spec").filter(|spec| spec.as_map().is_some()) else {
        let spec = node.get("spec").filter(|spec| !spec.is_null());
        return (node.clone(), spec.cloned().unwrap_or(empty));
    };
    let ignored = ignored_keys(kind);
    let is_tasks = |entry: &&MapEntry| {
        let key = &*entry.key;
        let is_kinds = kind.find_key(key).is_some() || LIFTED_KEYS.contains(&key);
        // A `pool` that is a map configures a connection pool; a `pool` of workers is a name.
        let is_ignored = ignored.contains(&key) && (key != "pool" || entry.value.as_map().is_some());
        is_ignored || is_kinds && !TASK_SPEC.iter().any(|(spec_key, _)| *spec_key == key)
    };
    let entries = spec.as_map().unwrap_or_default();
    let (lifted, remaining): (Vec<&MapEntry>, Vec<&MapEntry>) = entries.iter().partition(is_tasks);
    let map = |entries: Vec<&MapEntry>| Node {
        span: spec.span,
        value: NodeValue::Map(entries.into_iter().cloned().collect()),
    };
    let mut task = overlay(&map(lifted), node);
    task.span = node.span;
    (task, map(remaining))
}

/// Moves the keys that the kind allows in `input` from there to the task.
pub(crate) fn lift_reference(task: &Node, kind: &KindSpec) -> Node {
    let input = task.get("input").or_else(|| task.get("args"));
    let inside = input.and_then(Node::as_map).unwrap_or_default();
    let is_reference = |entry: &&MapEntry| kind.keys_in_input.contains(&&*entry.key);
    let mut keys = kind.keys_in_input.iter();
    let has_own = keys.any(|key| task.get(key).is_some());
    if has_own || !inside.iter().any(|entry| is_reference(&entry)) {
        return task.clone();
    }
    let (references, others): (Vec<&MapEntry>, Vec<&MapEntry>) = inside.iter().partition(is_reference);
    let entries = task.as_map().unwrap_or_default().iter();
    let mut entries: Vec<MapEntry> = entries
        .map(|entry| match &*entry.key {
            "input" | "args" => MapEntry {
                value: Node {
                    span: entry.value.span,
                    value: NodeValue::Map(others.iter().copied().cloned().collect()),
                },
                ..entry.clone()
            },
            _ => entry.clone(),
        })
        .collect();
    entries.extend(references.into_iter().cloned());
    Node {
        span: task.span,
        value: NodeValue::Map(entries),
    }
}

/// Returns the key for the program of a kind that accepts a `script`.
fn program_key(kind: &KindSpec) -> Option<&'static str> {
    kind.key("script")?;
    let keys = ["code", "command", "body"];
    keys.into_iter().find(|key| kind.key(key).is_some())
}

impl PlaybookReader {
    /// Moves an inline script, `source: {type: inline, code}`, to the kind's own key for programs. Checks the source
    /// type of any other script.
    pub(crate) fn lift_program(&mut self, task: &Node, kind: &KindSpec) -> Node {
        let (Some(key), Some(script)) = (program_key(kind), task.get("script")) else {
            return task.clone();
        };
        let source = script.get("source");
        let source_type = match source {
            Some(source) if source.as_map().is_some() => source.get("type"),
            other => other,
        };
        let Some(source_type) =
            source_type.filter(|source_type| source_type.as_str().is_some_and(|text| !text.contains("{{")))
        else {
            return task.clone();
        };
        if self
            .read_word(source_type, "script.source.type", SCRIPT_SOURCES)
            .is_none()
        {
            return task.clone();
        }
        if source_type.as_str() != Some("inline") {
            return task.clone();
        }
        let code = source.and_then(|source| source.get("code"));
        let Some(code) = code.or_else(|| script.get("code")) else {
            self.report_missing_key("code", "the inline script", script.span, "code: …");
            return task.clone();
        };
        let entries = task.as_map().unwrap_or_default().iter();
        let entries = entries.map(|entry| match &*entry.key {
            "script" => MapEntry {
                key: key.into(),
                value: code.clone(),
                ..entry.clone()
            },
            _ => entry.clone(),
        });
        Node {
            span: task.span,
            value: NodeValue::Map(entries.collect()),
        }
    }
}
