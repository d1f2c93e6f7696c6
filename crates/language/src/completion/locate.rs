//! Finds out what is at a position of a text: a key, a value, or an expression of a template.

use crate::completion::expected_value::ExpectedValue;
use crate::completion::outline::{NodeKind, Outline, OutlineValue};
use crate::reference::ValueType;

/// A position in a text: line and column count characters from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

impl Position {
    /// The byte offset of the position. A position outside the text becomes the nearest one inside.
    pub(crate) fn to_offset(self, text: &str) -> usize {
        let mut start = 0;
        for line in text.split_inclusive('\n').take(self.line.saturating_sub(1) as usize) {
            start += line.len();
        }
        let line = text[start..].split(['\n', '\r']).next().unwrap_or_default();
        let mut characters = line.char_indices().map(|(index, _)| index).chain([line.len()]);
        let column = self.column.saturating_sub(1) as usize;
        start + characters.nth(column).unwrap_or(line.len())
    }

    /// The position of a byte offset.
    pub(crate) fn from_offset(text: &str, offset: usize) -> Self {
        let before = &text[..offset];
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = text[line_start..offset].chars().count() + 1;
        Self {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// What is at a position. `start` is the byte offset of the word there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CursorTarget {
    /// A key of the map of `parent`; `node` is the key or the word that is written there.
    Key {
        parent: usize,
        node: Option<usize>,
        start: usize,
    },
    /// The value of `node`, a key or an item.
    Value { node: usize, start: usize },
    /// An expression of a template in the value of `node`.
    Expression { node: usize, start: usize },
    /// Text without a meaning to the language.
    Text,
}

/// Finds out what is at an offset.
pub(crate) fn locate(outline: &Outline<'_>, offset: usize) -> CursorTarget {
    let target = locate_in_flow(outline, offset).unwrap_or_else(|| locate_in_block(outline, offset));
    match target {
        CursorTarget::Value { node, start } => {
            let expression = expression_start(outline, node, offset);
            expression.map_or(CursorTarget::Value { node, start }, |start| CursorTarget::Expression {
                node,
                start,
            })
        }
        target => target,
    }
}

/// The target inside the innermost flow collection around an offset.
fn locate_in_flow(outline: &Outline<'_>, offset: usize) -> Option<CursorTarget> {
    let is_around = |index: &usize| {
        let node = outline.node(*index);
        let is_flow = matches!(node.value, OutlineValue::FlowMap | OutlineValue::FlowList);
        is_flow && node.value_start < offset && offset <= node.value_end && {
            let value = &outline.text[node.value_start..node.value_end];
            offset < node.value_end || value.len() == 1 || !value.ends_with(['}', ']'])
        }
    };
    let owner = (0..outline.nodes.len()).rfind(is_around)?;
    let mut children = outline.children(owner);
    let child = children.find(|index| {
        let child = outline.node(*index);
        child.start <= offset && offset <= child.value_end.max(child.start + name_len(outline, *index))
    });
    Some(match child {
        Some(child) => locate_in_node(outline, child, offset),
        None if outline.node(owner).value == OutlineValue::FlowMap => new_key(owner, offset),
        None => CursorTarget::Value {
            node: owner,
            start: offset,
        },
    })
}

/// The target outside of flow collections.
fn locate_in_block(outline: &Outline<'_>, offset: usize) -> CursorTarget {
    let line_start = outline.text[..offset].rfind('\n').map_or(0, |end| end + 1);
    let line = outline.text[line_start..].split('\n').next().unwrap_or_default();
    let last = outline.nodes.partition_point(|node| node.start <= offset) - 1;
    if last > 0 && outline.node(last).start >= line_start {
        // After the end of a flow collection nothing can follow.
        let is_in_flow = outline.node(last).column == usize::MAX;
        return if is_in_flow {
            CursorTarget::Text
        } else {
            locate_in_node(outline, last, offset)
        };
    }
    let is_blank = line.trim().is_empty();
    let column = if is_blank {
        offset - line_start
    } else {
        line.len() - line.trim_start().len()
    };
    if line.trim_start().starts_with('#') {
        return CursorTarget::Text;
    }
    let before = outline
        .nodes
        .partition_point(|node| node.start < line_start)
        .saturating_sub(1);
    if let Some(owner) = text_owner(outline, before, column) {
        return CursorTarget::Value {
            node: owner,
            start: offset,
        };
    }
    if !is_blank && offset > line_start + column {
        return CursorTarget::Text;
    }
    let mut parent = before;
    while parent != 0 && outline.node(parent).column >= column {
        parent = outline.node(parent).parent;
    }
    new_key(parent, offset)
}

/// The node whose block of text, or scalar of several lines, covers a column of a line after it.
fn text_owner(outline: &Outline<'_>, before: usize, column: usize) -> Option<usize> {
    let node = outline.node(before);
    let owner = if node.kind == NodeKind::Word {
        node.parent
    } else {
        before
    };
    let owner_node = outline.node(owner);
    let is_text = match owner_node.value {
        OutlineValue::Block => true,
        OutlineValue::Scalar(text) => text.contains("{{") || text.contains("{%"),
        _ => false,
    };
    (owner != 0 && is_text && column > owner_node.column).then_some(owner)
}

fn locate_in_node(outline: &Outline<'_>, index: usize, offset: usize) -> CursorTarget {
    let node = outline.node(index);
    let key = CursorTarget::Key {
        parent: node.parent,
        node: Some(index),
        start: node.start,
    };
    match node.kind {
        NodeKind::Key(_) if offset <= node.start + name_len(outline, index) => key,
        NodeKind::Key(_) | NodeKind::Item if node.value == OutlineValue::Block => CursorTarget::Text,
        NodeKind::Word => key,
        NodeKind::Item if node.value == OutlineValue::Empty => new_key(index, offset),
        NodeKind::Key(_) | NodeKind::Item => CursorTarget::Value {
            node: index,
            start: value_start(outline, index, offset),
        },
        NodeKind::Document => CursorTarget::Text,
    }
}

fn new_key(parent: usize, offset: usize) -> CursorTarget {
    CursorTarget::Key {
        parent,
        node: None,
        start: offset,
    }
}

/// The number of bytes of a key as it is written.
fn name_len(outline: &Outline<'_>, index: usize) -> usize {
    let node = outline.node(index);
    let written = &outline.text[node.start..];
    match node.kind {
        NodeKind::Key(key) if written.starts_with(['"', '\'']) => key.len() + 2,
        NodeKind::Key(key) => key.len(),
        NodeKind::Word => written.len() - written.trim_start_matches(super::outline::is_word).len(),
        _ => 0,
    }
}

/// The start of a scalar, after its quote.
fn value_start(outline: &Outline<'_>, index: usize, offset: usize) -> usize {
    let node = outline.node(index);
    if node.value == OutlineValue::Empty {
        return offset;
    }
    let quote = outline.text[node.value_start..].starts_with(['"', '\'']);
    (node.value_start + usize::from(quote)).min(offset)
}

/// The start of the expression at an offset of a value.
fn expression_start(outline: &Outline<'_>, node: usize, offset: usize) -> Option<usize> {
    let from = outline.node(node).value_start.min(offset);
    let value = &outline.text[from..offset];
    let open = value.rfind("{{").max(value.rfind("{%"));
    let close = value.rfind("}}").max(value.rfind("%}"));
    match open {
        Some(open) if close.is_none_or(|close| close < open) => Some(from + open + 2),
        Some(_) => None,
        None => is_condition(outline, node).then(|| value_start(outline, node, offset)),
    }
}

fn is_condition(outline: &Outline<'_>, node: usize) -> bool {
    matches!(ExpectedValue::of(outline, node), ExpectedValue::Value(doc) if matches!(doc.value, ValueType::Condition))
}
