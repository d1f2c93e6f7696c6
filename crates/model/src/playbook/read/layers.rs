//! Layers of `spec`: defaults of the kind, executor, step, loop, task. Each overrides the ones before.

use crate::yaml::{Entry, Node, Value, overlay};

/// Keys of an outer `spec` that tasks inherit. A step's own `timeout` limits the whole step and is not inherited.
const INHERITED: &[&str] = &[
    "result",
    "retry",
    "pool",
    "sandbox",
    "resources",
    "effect",
    "isolate",
];

/// Returns the part of an outer `spec` that its tasks inherit.
pub(crate) fn inheritable(spec: &Node, with_timeout: bool) -> Node {
    let entries = spec.as_map().unwrap_or_default();
    let kept = entries.iter().filter_map(|entry| match &*entry.key {
        "policy" => rules_of(entry),
        key if key.starts_with("timeout") => with_timeout.then(|| entry.clone()),
        key => INHERITED.contains(&key).then(|| entry.clone()),
    });
    Node {
        span: spec.span,
        value: Value::Map(kept.collect()),
    }
}

fn rules_of(policy: &Entry) -> Option<Entry> {
    let entries = policy.value.as_map()?;
    let rules: Vec<Entry> = entries
        .iter()
        .filter(|entry| matches!(&*entry.key, "rules" | "on_unmatched"))
        .cloned()
        .collect();
    (!rules.is_empty()).then(|| Entry {
        key: policy.key.clone(),
        span: policy.span,
        value: Node {
            span: policy.value.span,
            value: Value::Map(rules),
        },
    })
}

/// Overlays two optional layers.
pub(crate) fn stack(below: Option<Node>, above: Option<Node>) -> Option<Node> {
    match (below, above) {
        (Some(below), Some(above)) => Some(overlay(&below, &above)),
        (below, above) => above.or(below),
    }
}
