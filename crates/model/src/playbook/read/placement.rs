//! Keys of a task that may stand elsewhere: under its `spec`, under `input`, inside `script`. They are moved to the task
//! itself, so that everything behind this knows one place.

use crate::playbook::kinds::KindSpec;
use crate::playbook::read::reader::Reader;
use crate::playbook::read::shapes::{TASK_IGNORED, TASK_SPEC};
use crate::yaml::{Entry, Node, Value, overlay};

/// Where a script may be.
const SCRIPT_SOURCES: &[(&str, ())] = &[
    ("inline", ()),
    ("file", ()),
    ("http", ()),
    ("https", ()),
    ("gcs", ()),
    ("s3", ()),
];

/// Keys by which an `artifact` task names what it is about.
const REFERENCES: &[&str] = &["ref", "result_ref", "uri"];

/// Keys of every task that may be placed under its `spec`.
const LIFTED: &[&str] = &["input", "args", "auth", "credential"];

/// Keys of a task that only another runtime reads.
pub(crate) fn ignored_keys(kind: &KindSpec) -> Vec<&'static str> {
    let own: &[&str] = match kind.name {
        "postgres" | "sqlite" | "duckdb" => &["pool"],
        "python" => &["assert"],
        "playbook" => &["task"],
        _ => &[],
    };
    own.iter().chain(TASK_IGNORED).copied().collect()
}

/// The task's own keys placed under `spec` move up to the task; what is left is the task's own layer of `spec`.
pub(crate) fn lift(node: &Node, kind: &KindSpec) -> (Node, Node) {
    let empty = Node::empty_map(node.span);
    let Some(spec) = node.get("spec").filter(|spec| spec.as_map().is_some()) else {
        let spec = node.get("spec").filter(|spec| !spec.is_null());
        return (node.clone(), spec.cloned().unwrap_or(empty));
    };
    let ignored = ignored_keys(kind);
    let is_tasks = |entry: &&Entry| {
        let key = &*entry.key;
        let is_kinds = kind.key_spelled(key).is_some() || LIFTED.contains(&key);
        // The size of a connection pool is a map; the pool of workers is a name.
        let is_ignored =
            ignored.contains(&key) && (key != "pool" || entry.value.as_map().is_some());
        is_ignored || is_kinds && !TASK_SPEC.iter().any(|(known, _)| *known == key)
    };
    let entries = spec.as_map().unwrap_or_default();
    let (lifted, kept): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(is_tasks);
    let map = |entries: Vec<&Entry>| Node {
        span: spec.span,
        value: Value::Map(entries.into_iter().cloned().collect()),
    };
    let mut task = overlay(&map(lifted), node);
    task.span = node.span;
    (task, map(kept))
}

/// An `artifact` task whose reference stands under `input`, with the reference beside `kind`.
pub(crate) fn own_reference(task: &Node, kind: &KindSpec) -> Node {
    let input = task.get("input").or_else(|| task.get("args"));
    let inside = input.and_then(Node::as_map).unwrap_or_default();
    let is_reference = |entry: &&Entry| REFERENCES.contains(&&*entry.key);
    let has_own = REFERENCES.iter().any(|key| task.get(key).is_some());
    if kind.name != "artifact" || has_own || !inside.iter().any(|entry| is_reference(&entry)) {
        return task.clone();
    }
    let (references, rest): (Vec<&Entry>, Vec<&Entry>) = inside.iter().partition(is_reference);
    let entries = task.as_map().unwrap_or_default().iter();
    let mut entries: Vec<Entry> = entries
        .map(|entry| match &*entry.key {
            "input" | "args" => Entry {
                value: Node {
                    span: entry.value.span,
                    value: Value::Map(rest.iter().copied().cloned().collect()),
                },
                ..entry.clone()
            },
            _ => entry.clone(),
        })
        .collect();
    entries.extend(references.into_iter().cloned());
    Node {
        span: task.span,
        value: Value::Map(entries),
    }
}

/// The key that holds the program of a kind that takes a `script`.
fn program_key(kind: &KindSpec) -> Option<&'static str> {
    kind.key("script")?;
    let keys = ["code", "command", "body"];
    keys.into_iter().find(|key| kind.key(key).is_some())
}

impl Reader {
    /// A task whose script stands in the playbook, `source: {type: inline, code}`, with the program under the kind's own
    /// key. Any other script is checked for its shape.
    pub(crate) fn own_program(&mut self, task: &Node, kind: &KindSpec) -> Node {
        let (Some(key), Some(script)) = (program_key(kind), task.get("script")) else {
            return task.clone();
        };
        let source = script.get("source");
        let given = match source {
            Some(source) if source.as_map().is_some() => source.get("type"),
            other => other,
        };
        let Some(given) =
            given.filter(|given| given.as_str().is_some_and(|text| !text.contains("{{")))
        else {
            return task.clone();
        };
        if self
            .word(given, "script.source.type", SCRIPT_SOURCES)
            .is_none()
        {
            return task.clone();
        }
        if given.as_str() != Some("inline") {
            return task.clone();
        }
        let code = source.and_then(|source| source.get("code"));
        let Some(code) = code.or_else(|| script.get("code")) else {
            self.missing("code", "the inline script", script.span, "code: …");
            return task.clone();
        };
        let entries = task.as_map().unwrap_or_default().iter();
        let entries = entries.map(|entry| match &*entry.key {
            "script" => Entry {
                key: key.into(),
                value: code.clone(),
                ..entry.clone()
            },
            _ => entry.clone(),
        });
        Node {
            span: task.span,
            value: Value::Map(entries.collect()),
        }
    }
}
