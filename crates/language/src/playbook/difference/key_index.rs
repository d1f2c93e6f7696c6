//! The keys of a YAML text with their lines, for values whose position the playbook does not record.

use std::ops::Range;

use model::source::SourceText;

use crate::yaml::{Node, NodeValue, parse_documents};

/// A key and the text that it and its value occupy.
struct KeyPosition {
    key: String,
    line: u32,
    range: Range<u32>,
    depth: u32,
}

/// The keys of a text, in its order.
pub(super) struct KeyIndex {
    keys: Vec<KeyPosition>,
    line_starts: Vec<u32>,
}

impl KeyIndex {
    pub(super) fn from_source(source: &SourceText) -> Self {
        let documents = parse_documents(&source.name, source.text.as_bytes());
        let mut keys = Vec::new();
        for root in &documents.roots {
            collect_keys(root, 0, &mut keys);
        }
        keys.sort_by_key(|position| position.range.start);
        let breaks = documents
            .source
            .text
            .bytes()
            .zip(1..)
            .filter(|(byte, _)| *byte == b'\n');
        Self {
            keys,
            line_starts: std::iter::once(0).chain(breaks.map(|(_, offset)| offset)).collect(),
        }
    }

    /// The line of the key at the end of a path, as far as the path can be followed inside `range`.
    pub(super) fn line_of(&self, range: &Range<u32>, path: &[String]) -> u32 {
        let (mut inside, mut line) = (range.clone(), self.line_at(range.start));
        for key in path {
            let first = self
                .keys
                .partition_point(|position| position.range.start < inside.start);
            let candidates = self.keys[first..].iter();
            let candidates = candidates.take_while(|position| position.range.start < inside.end);
            let matches = candidates.filter(|position| names_key(key, &position.key));
            if let Some(nearest) = matches.min_by_key(|position| position.depth) {
                line = nearest.line;
                inside = nearest.range.start + 1..nearest.range.end;
            }
        }
        line
    }

    fn line_at(&self, offset: u32) -> u32 {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        u32::try_from(line).unwrap_or(u32::MAX)
    }
}

/// Whether a written key is this key of a path, or the last part of it: `set_ctx: {total: …}` writes `ctx.total`.
fn names_key(key: &str, written: &str) -> bool {
    key.strip_suffix(written)
        .is_some_and(|scope| scope.is_empty() || scope.ends_with('.'))
}

/// The depth is bounded by that of YAML documents.
fn collect_keys(node: &Node, depth: u32, keys: &mut Vec<KeyPosition>) {
    match &node.value {
        NodeValue::List(items) => items.iter().for_each(|item| collect_keys(item, depth + 1, keys)),
        NodeValue::Map(entries) => {
            for entry in entries {
                keys.push(KeyPosition {
                    key: entry.key.to_string(),
                    line: entry.span.line,
                    range: entry.span.start..entry.value.span.end.max(entry.span.end),
                    depth,
                });
                collect_keys(&entry.value, depth + 1, keys);
            }
        }
        NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Text(_) => {}
    }
}
