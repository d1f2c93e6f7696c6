//! Layers of `spec`: defaults of the kind, executor, step, loop, task. Each overrides the ones before.

use crate::yaml::{MapEntry, Node, NodeValue, overlay};

/// Keys of an outer `spec` that tasks inherit. A step's own `timeout` limits the whole step and is not inherited.
const INHERITED_KEYS: &[&str] = &["result", "retry", "pool", "sandbox", "resources", "effect", "isolate"];

/// Returns the part of an outer `spec` that its tasks inherit.
pub(crate) fn inheritable_part(spec: &Node, with_timeout: bool) -> Node {
    let entries = spec.as_map().unwrap_or_default();
    let own_entries = entries.iter().filter_map(|entry| match &*entry.key {
        "policy" => policy_rules(entry),
        key if key.starts_with("timeout") => with_timeout.then(|| entry.clone()),
        key => INHERITED_KEYS.contains(&key).then(|| entry.clone()),
    });
    Node {
        span: spec.span,
        value: NodeValue::Map(own_entries.collect()),
    }
}

fn policy_rules(policy: &MapEntry) -> Option<MapEntry> {
    let entries = policy.value.as_map()?;
    let rules: Vec<MapEntry> = entries
        .iter()
        .filter(|entry| matches!(&*entry.key, "rules" | "on_unmatched"))
        .cloned()
        .collect();
    (!rules.is_empty()).then(|| MapEntry {
        key: policy.key.clone(),
        span: policy.span,
        value: Node {
            span: policy.value.span,
            value: NodeValue::Map(rules),
        },
    })
}

/// Overlays two optional layers.
pub(crate) fn overlay_layers(below: Option<Node>, above: Option<Node>) -> Option<Node> {
    match (below, above) {
        (Some(below), Some(above)) => Some(overlay(&below, &above)),
        (below, above) => above.or(below),
    }
}
