//! Merges maps, as layers of `spec` are combined.

use crate::yaml::node::{MapEntry, Node, NodeValue};

/// Merges `changes` into `base`: maps merge deeply, scalars and lists replace. Each value keeps its span.
pub(crate) fn overlay(base: &Node, changes: &Node) -> Node {
    let (NodeValue::Map(below), NodeValue::Map(above)) = (&base.value, &changes.value) else {
        return changes.clone();
    };
    let mut merged: Vec<MapEntry> = below.clone();
    for entry in above {
        match merged.iter_mut().find(|existing| existing.key == entry.key) {
            Some(existing) => {
                *existing = MapEntry {
                    key: entry.key.clone(),
                    span: entry.span,
                    value: overlay(&existing.value, &entry.value),
                };
            }
            None => merged.push(entry.clone()),
        }
    }
    Node {
        span: changes.span,
        value: NodeValue::Map(merged),
    }
}
