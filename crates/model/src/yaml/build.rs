//! Builds nodes from parser events with an explicit stack instead of recursion.

use std::collections::BTreeMap;
use std::sync::Arc;

use saphyr_parser::{Event, ScalarStyle, Tag};

use crate::diagnostic::Diagnostic;
use crate::source::{Source, Span};
use crate::yaml::align::without_properties;
use crate::yaml::node::{Entry, Node, Scalar, Style, Value};
use crate::yaml::scalar::resolve;

/// Maximum nesting depth of collections.
const DEPTH_MAX: usize = 64;
/// Maximum number of values in a file.
const NODES_MAX: usize = 100_000;
/// Maximum size that anchors and aliases may add to a document, in units of [`Node::weight`].
const EXPANSION_MAX: usize = 8 * 1024 * 1024;

/// An error that ends parsing.
type Refusal = Box<Diagnostic>;

/// Builds documents.
pub(crate) struct Builder {
    pub(crate) roots: Vec<Node>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    source: Source,
    stack: Vec<Frame>,
    anchors: BTreeMap<usize, Anchored>,
    nodes: usize,
    expanded: usize,
}

/// An open collection.
struct Frame {
    span: Span,
    anchor: usize,
    open: Open,
}

enum Open {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<Entry>,
    known: BTreeMap<Arc<str>, Span>,
    key: Option<Key>,
    merged: Vec<Node>,
    is_bare_template: bool,
}

enum Key {
    Text(Arc<str>, Span),
    Merge,
    /// Already reported; its value is dropped.
    Bad,
}

struct Anchored {
    node: Node,
    weight: usize,
    height: usize,
}

impl Builder {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            roots: Vec::new(),
            diagnostics: Vec::new(),
            source,
            stack: Vec::new(),
            anchors: BTreeMap::new(),
            nodes: 0,
            expanded: 0,
        }
    }

    /// Processes one event; an error ends parsing.
    pub(crate) fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Refusal> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let mut node = self.scalar(&text, style, tag.as_deref(), span);
                if anchor != 0 || tag.is_some() {
                    node.span = without_properties(&self.source.text, span, written(style));
                }
                self.keep(anchor, &node, span)?;
                let is_plain = style == ScalarStyle::Plain;
                self.place(node, is_plain.then_some(&*text), span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.push(anchor, Open::List(Vec::new()), span)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.push(anchor, Open::Map(OpenMap::default()), span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.pop(span),
            Event::Alias(anchor) => {
                let node = self.expand(anchor, span)?;
                self.place(node, None, span)
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn error(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, message, span, &self.source)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Node {
        let raw = tag.is_some_and(|tag| tag.handle == "!" && tag.suffix == "raw");
        if !raw {
            self.refuse_tag(tag, span);
        }
        let style = written(style);
        let value = if style == Style::Plain && !raw {
            resolve(text)
        } else {
            Value::Text(Scalar {
                text: text.into(),
                style,
                raw,
            })
        };
        Node { span, value }
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let error = self
                .error(
                    "E0007",
                    format!("the tag `{}` is not supported", shown(tag)),
                    span,
                )
                .label("remove the tag")
                .help("only `!raw` is supported: it marks text that is not a template");
            self.diagnostics.push(error);
        }
    }

    fn count(&mut self, span: Span) -> Result<(), Refusal> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values");
            return Err(self.error("E0005", message, span).into());
        }
        Ok(())
    }

    fn push(&mut self, anchor: usize, open: Open, span: Span) -> Result<(), Refusal> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(too_deep(span, &self.source).into());
        }
        self.stack.push(Frame { span, anchor, open });
        Ok(())
    }

    fn pop(&mut self, end: Span) -> Result<(), Refusal> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let mut span = frame.span;
        span.end = span.end.max(end.end);
        let value = match frame.open {
            Open::List(items) => Value::List(items),
            Open::Map(map) if map.is_bare_template => self.bare_template(span),
            Open::Map(map) => Value::Map(close(map)),
        };
        let node = Node { span, value };
        self.keep(frame.anchor, &node, span)?;
        self.place(node, None, span)
    }

    /// Reports a template whose quotes were probably forgotten. Parsing continues as if it were quoted, so that it
    /// causes no further errors.
    fn bare_template(&mut self, span: Span) -> Value {
        let slice = &self.source.text[span.start as usize..span.end as usize];
        let text = slice.trim_end().to_owned();
        let error = self
            .error("E0010", "unquoted template", span)
            .label(format!("quote it: `\"{text}\"`"));
        self.diagnostics.push(error);
        Value::Text(Scalar {
            text: text.into(),
            style: Style::Plain,
            raw: false,
        })
    }

    /// Adds a finished node to its parent; `plain` is its text if it is a plain scalar.
    fn place(&mut self, node: Node, plain: Option<&str>, span: Span) -> Result<(), Refusal> {
        self.count(span)?;
        let Some(frame) = self.stack.last_mut() else {
            self.roots.push(node);
            return Ok(());
        };
        let outer = frame.span;
        let map = match &mut frame.open {
            Open::List(items) => {
                items.push(node);
                return Ok(());
            }
            Open::Map(map) => map,
        };
        match map.key.take() {
            None => {
                let key = self.key(&node, plain, outer);
                self.map_at_top().key = Some(key);
            }
            Some(Key::Bad) => {}
            Some(Key::Merge) => self.merge(node, span),
            Some(Key::Text(key, key_span)) => self.insert(key, key_span, node),
        }
        Ok(())
    }

    fn map_at_top(&mut self) -> &mut OpenMap {
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            Some(Open::Map(map)) => map,
            _ => unreachable!("keys are only added to an open map"),
        }
    }

    fn key(&mut self, node: &Node, plain: Option<&str>, outer: Span) -> Key {
        if plain == Some("<<") {
            return Key::Merge;
        }
        match &node.value {
            Value::Text(text) => Key::Text(text.text.clone(), node.span),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                let text = plain.map_or_else(|| node.to_json().to_string(), str::to_owned);
                Key::Text(text.into(), node.span)
            }
            Value::List(_) | Value::Map(_) => {
                if node.span.start == outer.start + 1 && node.as_map().is_some() {
                    self.map_at_top().is_bare_template = true;
                } else {
                    let message = format!("a key must be text, not {}", node.describe());
                    let error = self.error("E0009", message, node.span).label("this key");
                    self.diagnostics.push(error);
                }
                Key::Bad
            }
        }
    }

    fn insert(&mut self, key: Arc<str>, span: Span, value: Node) {
        let map = self.map_at_top();
        if let Some(first) = map.known.get(&key).copied() {
            let message = format!("the key `{key}` appears twice");
            let error = self
                .error("E0006", message, span)
                .label(format!("first on line {}", first.line));
            self.diagnostics.push(error);
            return;
        }
        map.known.insert(key.clone(), span);
        map.entries.push(Entry { key, span, value });
    }

    fn merge(&mut self, node: Node, span: Span) {
        let maps = match node.value {
            Value::Map(_) => vec![node],
            Value::List(items) if items.iter().all(|item| item.as_map().is_some()) => items,
            _ => {
                let message = format!(
                    "`<<` needs a map or a list of maps, not {}",
                    node.describe()
                );
                let error = self
                    .error("E0008", message, span)
                    .label("merge a map: `<<: *name`");
                self.diagnostics.push(error);
                return;
            }
        };
        self.map_at_top().merged.extend(maps);
    }

    fn keep(&mut self, anchor: usize, node: &Node, span: Span) -> Result<(), Refusal> {
        if anchor == 0 {
            return Ok(());
        }
        let weight = node.weight();
        self.charge(weight, span)?;
        let anchored = Anchored {
            node: node.clone(),
            weight,
            height: node.height(),
        };
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn expand(&mut self, anchor: usize, span: Span) -> Result<Node, Refusal> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let message = "an alias is used inside the value it refers to";
            return Err(self
                .error("E0008", message, span)
                .label("this alias")
                .into());
        };
        if self.stack.len() + anchored.height > DEPTH_MAX {
            return Err(too_deep(span, &self.source).into());
        }
        let (node, weight) = (anchored.node.clone(), anchored.weight);
        self.charge(weight, span)?;
        Ok(node)
    }

    fn charge(&mut self, weight: usize, span: Span) -> Result<(), Refusal> {
        self.expanded += weight;
        if self.expanded > EXPANSION_MAX {
            let message = "the document is too large after its aliases are expanded";
            let error = self.error("E0005", message, span);
            return Err(error.label("this one exceeds the limit").into());
        }
        Ok(())
    }
}

/// Keys of the map override merged ones, and an earlier merge overrides a later one.
fn close(map: OpenMap) -> Vec<Entry> {
    let OpenMap {
        mut entries,
        mut known,
        merged,
        ..
    } = map;
    for node in merged {
        let Value::Map(from) = node.value else {
            continue;
        };
        for entry in from {
            if known.insert(entry.key.clone(), entry.span).is_none() {
                entries.push(entry);
            }
        }
    }
    entries
}

/// Returns a tag as written; the library expands `!!`.
fn shown(tag: &Tag) -> String {
    if tag.is_yaml_core_schema() {
        format!("!!{}", tag.suffix)
    } else {
        tag.to_string()
    }
}

fn written(style: ScalarStyle) -> Style {
    match style {
        ScalarStyle::Plain => Style::Plain,
        ScalarStyle::SingleQuoted => Style::SingleQuoted,
        ScalarStyle::DoubleQuoted => Style::DoubleQuoted,
        ScalarStyle::Literal | ScalarStyle::Folded => Style::Block,
    }
}

/// The error for text that is nested too deeply.
pub(crate) fn too_deep(span: Span, source: &Source) -> Diagnostic {
    let message = format!("collections are nested more than {DEPTH_MAX} levels deep");
    Diagnostic::new("E0004", message, span, source).label("this level is too deep")
}
