//! Reads flow collections, `{…}` and `[…]`, into an outline.

use crate::completion::outline::{DEPTH_MAX, NodeKind, Outline, OutlineNode, OutlineValue, unquote};

/// Reads the collection that begins at `start` as the value of `owner`. It ends with its last bracket, or before a line
/// that is not deeper than `column`. Returns its end.
pub(crate) fn read_flow(outline: &mut Outline<'_>, owner: usize, start: usize, column: usize) -> usize {
    let end = find_limit(outline.text, start, column);
    let mut reader = FlowReader {
        bytes: &outline.text.as_bytes()[..end],
        position: start,
        outline,
    };
    reader.read_value(owner, 0);
    reader.position
}

/// Longer collections are read up to the line that exceeds this.
const FLOW_BYTES_MAX: usize = 64 * 1024;

/// The start of the first line after `start` that is not deeper than `column`.
fn find_limit(text: &str, start: usize, column: usize) -> usize {
    let mut position = start;
    for (index, line) in text[start..].split_inclusive('\n').enumerate() {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        let is_blank = content.trim().is_empty();
        if index > 0 && (!is_blank && indent <= column || position - start > FLOW_BYTES_MAX) {
            return position;
        }
        position += line.len();
    }
    position
}

struct FlowReader<'o, 't> {
    bytes: &'t [u8],
    position: usize,
    outline: &'o mut Outline<'t>,
}

impl<'t> FlowReader<'_, 't> {
    /// Reads a collection or a scalar as the value of `owner`.
    fn read_value(&mut self, owner: usize, depth: usize) {
        self.skip_spaces();
        let start = self.position;
        self.outline.nodes[owner].value_start = start;
        let value = match self.peek() {
            Some(b'{') if depth < DEPTH_MAX => {
                self.position += 1;
                self.read_entries(owner, depth, b'}');
                OutlineValue::FlowMap
            }
            Some(b'[') if depth < DEPTH_MAX => {
                self.position += 1;
                self.read_entries(owner, depth, b']');
                OutlineValue::FlowList
            }
            _ => {
                self.skip_scalar(false);
                if self.position == start && matches!(self.peek(), Some(b'{' | b'[')) {
                    // Too deep: the bracket is skipped.
                    self.position += 1;
                }
                let text = self.outline.text;
                let text = unquote(&text[start..self.position]);
                if text.is_empty() {
                    OutlineValue::Empty
                } else {
                    OutlineValue::Scalar(text)
                }
            }
        };
        self.outline.nodes[owner].value = value;
        self.outline.nodes[owner].value_end = self.position;
    }

    /// Reads the entries of a map or a list up to its closing bracket.
    fn read_entries(&mut self, owner: usize, depth: usize, close: u8) {
        loop {
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(byte) if byte == close => {
                    self.position += 1;
                    return;
                }
                None | Some(b'}' | b']') => return,
                Some(_) if close == b'}' => self.read_pair(owner, depth),
                Some(_) => {
                    let item = self.add(owner, NodeKind::Item, self.position);
                    self.read_value(item, depth + 1);
                }
            }
        }
    }

    /// Reads `key: value`, or a key that has no value yet.
    fn read_pair(&mut self, owner: usize, depth: usize) {
        let start = self.position;
        self.skip_scalar(true);
        if self.position == start {
            // A character that can begin no key.
            self.position = next_boundary(self.outline.text, start);
            return;
        }
        let text = self.outline.text;
        let key = unquote(&text[start..self.position]);
        if self.peek() == Some(b':') {
            let node = self.add(owner, NodeKind::Key(key), start);
            self.position += 1;
            self.read_value(node, depth + 1);
        } else {
            self.add(owner, NodeKind::Word, start);
        }
    }

    fn add(&mut self, parent: usize, kind: NodeKind<'t>, start: usize) -> usize {
        self.outline.nodes.push(OutlineNode {
            parent,
            kind,
            start,
            column: usize::MAX,
            value: OutlineValue::Empty,
            value_start: start,
            value_end: self.position.max(start),
        });
        self.outline.nodes.len() - 1
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.position += 1;
        }
    }

    /// Skips a scalar up to a comma, a bracket, or, for a key, a colon.
    fn skip_scalar(&mut self, is_key: bool) {
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            self.position += 1;
            while self.peek().is_some_and(|byte| byte != quote) {
                self.position += if self.peek() == Some(b'\\') && quote == b'"' {
                    2
                } else {
                    1
                };
            }
            self.position = (self.position + 1).min(self.bytes.len());
            return;
        }
        while let Some(byte) = self.peek() {
            let is_colon = byte == b':' && self.bytes.get(self.position + 1).is_none_or(u8::is_ascii_whitespace);
            if matches!(byte, b',' | b'{' | b'}' | b'[' | b']') || is_key && is_colon {
                return;
            }
            self.position += 1;
        }
    }
}

/// The start of the character after the one at `position`.
fn next_boundary(text: &str, position: usize) -> usize {
    let width = text[position..].chars().next().map_or(1, char::len_utf8);
    position + width
}
