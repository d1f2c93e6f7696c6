//! The outline of a YAML text that may be broken: keys and list items with their positions, as an editor needs it.
//!
//! The parser of playbooks stops at the first syntax error, and a text has one most of the time while an author types.
//! The outline is read line by line from the indentation instead. It never fails; the cost is linear in the text.

use crate::completion::flow;

/// Deeper flow collections are not read.
pub(crate) const DEPTH_MAX: usize = 64;

/// The outline of a text. The node with index 0 is the document.
#[derive(Debug)]
pub(crate) struct Outline<'t> {
    pub(crate) text: &'t str,
    pub(crate) nodes: Vec<OutlineNode<'t>>,
}

/// A key, a list item, or a lone word.
#[derive(Debug)]
pub(crate) struct OutlineNode<'t> {
    pub(crate) parent: usize,
    pub(crate) kind: NodeKind<'t>,
    /// Byte offset of the key, the dash or the word.
    pub(crate) start: usize,
    /// Number of bytes between the start of the line and `start`; the maximum inside a flow collection.
    pub(crate) column: usize,
    pub(crate) value: OutlineValue<'t>,
    /// Byte offsets of the value; for a block or a map, only of its beginning.
    pub(crate) value_start: usize,
    pub(crate) value_end: usize,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind<'t> {
    Document,
    Key(&'t str),
    Item,
    /// A word that is neither: a key that is being typed.
    Word,
}

/// The value of a node, as far as it is on the same line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutlineValue<'t> {
    /// None: the value follows on the next lines, or is missing.
    Empty,
    /// A scalar, without its quotes.
    Scalar(&'t str),
    /// A block of text, which begins with `|` or `>`.
    Block,
    /// `{…}`.
    FlowMap,
    /// `[…]`.
    FlowList,
}

impl<'t> Outline<'t> {
    /// Reads the outline of a text.
    pub(crate) fn read(text: &'t str) -> Self {
        let document = OutlineNode {
            parent: 0,
            kind: NodeKind::Document,
            start: 0,
            column: 0,
            value: OutlineValue::Empty,
            value_start: 0,
            value_end: 0,
        };
        let mut reader = LineReader {
            outline: Self {
                text,
                nodes: vec![document],
            },
            open: Vec::new(),
            covered: None,
            flow_end: 0,
        };
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            reader.read_line(start, line.trim_end_matches(['\n', '\r']));
            start += line.len();
        }
        reader.outline
    }

    pub(crate) fn node(&self, index: usize) -> &OutlineNode<'t> {
        &self.nodes[index]
    }

    /// The nodes directly below one, in the order of the text.
    pub(crate) fn children(&self, parent: usize) -> impl Iterator<Item = usize> + '_ {
        // Nodes are in the order of the text, so those below a node follow it.
        let below = (parent + 1..self.nodes.len()).take_while(move |index| self.nodes[*index].parent >= parent);
        below.filter(move |index| self.nodes[*index].parent == parent)
    }

    /// The value of a key of a map.
    pub(crate) fn find_key(&self, parent: usize, key: &str) -> Option<usize> {
        self.children(parent)
            .find(|index| self.nodes[*index].kind == NodeKind::Key(key))
    }

    /// The scalar under a key of a map.
    pub(crate) fn find_scalar(&self, parent: usize, key: &str) -> Option<&'t str> {
        match self.node(self.find_key(parent, key)?).value {
            OutlineValue::Scalar(text) => Some(text),
            _ => None,
        }
    }

    /// The keys of a map, with the items of a list left out.
    pub(crate) fn keys(&self, parent: usize) -> impl Iterator<Item = &'t str> + '_ {
        self.children(parent).filter_map(|index| match self.nodes[index].kind {
            NodeKind::Key(key) => Some(key),
            _ => None,
        })
    }
}

/// Reads a text line by line.
struct LineReader<'t> {
    outline: Outline<'t>,
    /// The nodes that the next line can belong to, outermost first.
    open: Vec<usize>,
    /// The column of the node whose value covers deeper lines: a block of text, or a scalar of several lines.
    covered: Option<usize>,
    /// The end of the last flow collection; lines before it have been read.
    flow_end: usize,
}

impl<'t> LineReader<'t> {
    fn read_line(&mut self, line_start: usize, line: &'t str) {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.is_empty() || line_start < self.flow_end {
            return;
        }
        if self.covered.is_some_and(|column| indent > column) {
            return;
        }
        self.covered = None;
        if content.starts_with('#') {
            return;
        }
        if content == "---" && indent == 0 {
            self.open.clear();
            return;
        }
        self.read_entries(line_start, line, indent);
    }

    /// Reads the dashes at the beginning of a line, and the key or word after them.
    fn read_entries(&mut self, line_start: usize, line: &'t str, mut column: usize) {
        while let Some(remaining) = line[column..].strip_prefix('-') {
            if !(remaining.is_empty() || remaining.starts_with(' ')) {
                break;
            }
            let parent = self.find_list(column);
            let spaces = remaining.len() - remaining.trim_start_matches(' ').len();
            let next = column + 1 + spaces;
            let item = self.add(parent, NodeKind::Item, line_start + column, column);
            let node = &mut self.outline.nodes[item];
            (node.value_start, node.value_end) = (line_start + next, line_start + next);
            self.open.push(item);
            column = next;
        }
        let content = &line[column..];
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        let is_item = self.open.last().is_some_and(|last| {
            let last = self.outline.node(*last);
            last.kind == NodeKind::Item && last.value_start == line_start + column
        });
        if let Some((key, colon)) = split_key(content) {
            let parent = self.find_map(column);
            let node = self.add(parent, NodeKind::Key(key), line_start + column, column);
            self.open.push(node);
            self.read_value(node, line_start, line, column + colon + 1);
        } else if let (true, Some(item)) = (is_item, self.open.last().copied()) {
            self.read_value(item, line_start, line, column);
            if content.chars().all(is_word) {
                self.add(item, NodeKind::Word, line_start + column, column);
            }
        } else {
            let parent = self.find_map(column);
            self.add(parent, NodeKind::Word, line_start + column, column);
        }
    }

    /// Reads the value of `node`, which begins on the same line at or after `from`.
    fn read_value(&mut self, node: usize, line_start: usize, line: &'t str, from: usize) {
        let remaining = &line[from..];
        let trimmed = remaining.trim_start();
        let start = line_start + line.len() - trimmed.len();
        let value = strip_properties(trimmed);
        let value_start = start + trimmed.len() - value.len();
        let column = self.outline.node(node).column;
        self.outline.nodes[node].value_start = if value.is_empty() {
            line_start + from
        } else {
            value_start
        };
        self.outline.nodes[node].value_end = line_start + line.len();
        let read = match value.bytes().next() {
            None | Some(b'#') => OutlineValue::Empty,
            Some(b'|' | b'>') => {
                self.covered = Some(column);
                OutlineValue::Block
            }
            Some(first @ (b'{' | b'[')) => {
                self.flow_end = flow::read_flow(&mut self.outline, node, value_start, column);
                self.outline.nodes[node].value_end = self.flow_end;
                if first == b'{' {
                    OutlineValue::FlowMap
                } else {
                    OutlineValue::FlowList
                }
            }
            Some(_) => {
                self.covered = Some(column);
                OutlineValue::Scalar(unquote(value))
            }
        };
        self.outline.nodes[node].value = read;
    }

    fn add(&mut self, parent: usize, kind: NodeKind<'t>, start: usize, column: usize) -> usize {
        self.outline.nodes.push(OutlineNode {
            parent,
            kind,
            start,
            column,
            value: OutlineValue::Empty,
            value_start: start,
            value_end: start,
        });
        self.outline.nodes.len() - 1
    }

    /// The node whose list has a dash at `column`. A list may be as far left as its key.
    fn find_list(&mut self, column: usize) -> usize {
        while let Some(last) = self.open.last() {
            let last_node = self.outline.node(*last);
            let is_key = matches!(last_node.kind, NodeKind::Key(_)) && last_node.value == OutlineValue::Empty;
            if last_node.column < column || is_key && last_node.column == column {
                return *last;
            }
            self.open.pop();
        }
        0
    }

    /// The node whose map has a key at `column`.
    fn find_map(&mut self, column: usize) -> usize {
        while let Some(last) = self.open.last() {
            if self.outline.node(*last).column < column {
                return *last;
            }
            self.open.pop();
        }
        0
    }
}

/// Splits `key: value` into the key and the position of the colon.
fn split_key(content: &str) -> Option<(&str, usize)> {
    let quote = content.chars().next().filter(|first| matches!(first, '"' | '\''));
    let colon = match quote {
        Some(quote) => {
            let end = content[1..].find(quote)? + 2;
            content[end..].starts_with(':').then_some(end)?
        }
        None if content.starts_with(['{', '[', '|', '>', '&', '!', '%', '@', '`']) => return None,
        None => {
            let mut colons = content.match_indices(':').map(|(index, _)| index);
            colons.find(|index| content[index + 1..].is_empty() || content[index + 1..].starts_with([' ', '\t']))?
        }
    };
    let key = unquote(content[..colon].trim_end());
    (!key.contains(" #")).then_some((key, colon))
}

/// Removes an anchor and a tag in front of a value.
fn strip_properties(mut value: &str) -> &str {
    while value.starts_with(['&', '!']) {
        let end = value.find(' ').unwrap_or(value.len());
        value = value[end..].trim_start();
    }
    value
}

/// Removes the quotes of a scalar, and the comment after a plain one.
pub(crate) fn unquote(value: &str) -> &str {
    let value = value.trim_end();
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote) {
            return inner.split(quote).next().unwrap_or(inner);
        }
    }
    value.split(" #").next().unwrap_or(value).trim_end()
}

/// Whether a character can be part of a key or a name while it is typed.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '$' | '/' | '@')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each node as `parent path > key = value`.
    fn describe(text: &str) -> Vec<String> {
        let outline = Outline::read(text);
        let name = |index: usize| match outline.node(index).kind {
            NodeKind::Document => String::new(),
            NodeKind::Key(key) => key.to_owned(),
            NodeKind::Item => "-".to_owned(),
            NodeKind::Word => "?".to_owned(),
        };
        let path = |mut index: usize| {
            let mut path = name(index);
            while index != 0 {
                index = outline.node(index).parent;
                path = format!("{}/{path}", name(index));
            }
            path
        };
        let value = |index: usize| match outline.node(index).value {
            OutlineValue::Scalar(text) => format!(" {text}"),
            _ => String::new(),
        };
        (1..outline.nodes.len())
            .map(|index| path(index) + &value(index))
            .collect()
    }

    #[test]
    fn maps_and_lists_nest_by_indentation() {
        let text = "a: 1\nb:\n  - c: 2\n    d: x # note\n  - e\nf:\n- g: 3\nh:\n  i: |\n    j: 4\n\n    k\n  l: m\n";
        let expected = [
            "/a 1", "/b", "/b/-", "/b/-/c 2", "/b/-/d x", "/b/- e", "/b/-/?", "/f", "/f/-", "/f/-/g 3", "/h", "/h/i",
            "/h/l m",
        ];
        assert_eq!(describe(text), expected);
    }

    #[test]
    fn flow_collections_are_read_also_if_they_are_not_closed() {
        let text = "next: {arcs: [{step: a, when: \"{{ x == 'y, z' }}\"}, {step: b}]}\n\
                    then: {do: retry, att\ntool:\n  x: [a,\n    b]\n";
        let expected = [
            "/next",
            "/next/arcs",
            "/next/arcs/-",
            "/next/arcs/-/step a",
            "/next/arcs/-/when {{ x == 'y, z' }}",
            "/next/arcs/-",
            "/next/arcs/-/step b",
            "/then",
            "/then/do retry",
            "/then/?",
            "/tool",
            "/tool/x",
            "/tool/x/- a",
            "/tool/x/- b",
        ];
        assert_eq!(describe(text), expected);
    }

    #[test]
    fn a_word_that_is_typed_belongs_to_the_map_around_it() {
        let text = "workflow:\n  - step: a\n    too\n    next: {}\n  - \n";
        let expected = [
            "/workflow",
            "/workflow/-",
            "/workflow/-/step a",
            "/workflow/-/?",
            "/workflow/-/next",
            "/workflow/-",
        ];
        assert_eq!(describe(text), expected);
    }

    #[test]
    fn any_text_has_an_outline() {
        for text in [
            "",
            "\n",
            ":",
            "- - -",
            "{",
            "[}",
            "a: {b: [",
            "\"a",
            "é: ü\n\t x",
            "- |\n x",
            "'a': 'b",
            "? x",
            "{{{{",
            "---\n- {",
        ] {
            let outline = Outline::read(text);
            for node in &outline.nodes {
                assert!(
                    text.is_char_boundary(node.start) && text.is_char_boundary(node.value_end),
                    "{text:?}"
                );
                assert!(
                    text.is_char_boundary(node.value_start) && node.value_start <= node.value_end,
                    "{text:?}"
                );
            }
        }
    }
}
