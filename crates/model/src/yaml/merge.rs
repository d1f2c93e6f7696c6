//! Merges maps, as layers of `spec` are combined.

use crate::yaml::node::{Entry, Node, Value};

/// Merges `over` into `base`: maps merge deeply, scalars and lists replace. Each value keeps its span.
pub(crate) fn overlay(base: &Node, over: &Node) -> Node {
    let (Value::Map(below), Value::Map(above)) = (&base.value, &over.value) else {
        return over.clone();
    };
    let mut merged: Vec<Entry> = below.clone();
    for entry in above {
        match merged.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => {
                *known = Entry {
                    key: entry.key.clone(),
                    span: entry.span,
                    value: overlay(&known.value, &entry.value),
                };
            }
            None => merged.push(entry.clone()),
        }
    }
    Node {
        span: over.span,
        value: Value::Map(merged),
    }
}
