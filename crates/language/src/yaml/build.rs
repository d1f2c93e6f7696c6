//! Builds nodes from parser events with an explicit stack instead of recursion.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::source::{SourceText, Span};
use saphyr_parser::{Event, ScalarStyle, Tag};

use crate::diagnostic::Diagnostic;
use crate::yaml::align::without_properties;
use crate::yaml::node::{MapEntry, Node, NodeValue, Scalar, ScalarQuoting};
use crate::yaml::scalar::parse_scalar;

/// Maximum nesting depth of collections.
const DEPTH_MAX: usize = 64;
/// Maximum number of values in a file.
const NODES_MAX: usize = 100_000;
/// Maximum size that anchors and aliases may add to a document, in units of [`Node::weight`].
const EXPANSION_MAX: usize = 8 * 1024 * 1024;

/// An error that ends parsing.
type YamlError = Box<Diagnostic>;

/// Builds documents.
pub(crate) struct Builder {
    pub(crate) roots: Vec<Node>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    source: SourceText,
    stack: Vec<OpenFrame>,
    anchors: BTreeMap<usize, AnchoredNode>,
    nodes: usize,
    expanded: usize,
}

/// An open collection.
struct OpenFrame {
    span: Span,
    anchor: usize,
    open: OpenCollection,
}

enum OpenCollection {
    List(Vec<Node>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    entries: Vec<MapEntry>,
    key_spans: BTreeMap<Arc<str>, Span>,
    key: Option<MapKey>,
    merge_nodes: Vec<Node>,
    is_bare_template: bool,
}

enum MapKey {
    Text(Arc<str>, Span),
    Merge,
    /// Already reported; its value is dropped.
    Invalid,
}

struct AnchoredNode {
    node: Node,
    weight: usize,
    height: usize,
}

impl Builder {
    pub(crate) fn new(source: SourceText) -> Self {
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
    pub(crate) fn apply_event(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let mut node = self.build_scalar(&text, style, tag.as_deref(), span);
                if anchor != 0 || tag.is_some() {
                    node.span = without_properties(&self.source.text, span, quoting_of(style));
                }
                self.store_anchor(anchor, &node, span)?;
                let is_plain = style == ScalarStyle::Plain;
                self.attach_node(node, is_plain.then_some(&*text), span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.open_frame(anchor, OpenCollection::List(Vec::new()), span)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag.as_deref(), span);
                self.open_frame(anchor, OpenCollection::Map(OpenMap::default()), span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close_frame(span),
            Event::Alias(anchor) => {
                let node = self.expand_alias(anchor, span)?;
                self.attach_node(node, None, span)
            }
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentStart(_) | Event::DocumentEnd => {
                Ok(())
            }
        }
    }

    fn error(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, message, span, &self.source)
    }

    fn build_scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, span: Span) -> Node {
        let raw = tag.is_some_and(|tag| tag.handle == "!" && tag.suffix == "raw");
        if !raw {
            self.refuse_tag(tag, span);
        }
        let style = quoting_of(style);
        let value = if style == ScalarQuoting::Plain && !raw {
            parse_scalar(text)
        } else {
            NodeValue::Text(Scalar {
                text: text.into(),
                quoting: style,
                is_raw: raw,
            })
        };
        Node { span, value }
    }

    fn refuse_tag(&mut self, tag: Option<&Tag>, span: Span) {
        if let Some(tag) = tag {
            let error = self
                .error("E0007", format!("the tag `{}` is not supported", format_tag(tag)), span)
                .with_label("remove the tag")
                .with_help("only `!raw` is supported: it marks text that is not a template");
            self.diagnostics.push(error);
        }
    }

    fn count_node(&mut self, span: Span) -> Result<(), YamlError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let message = format!("the file has more than {NODES_MAX} values");
            return Err(self.error("E0005", message, span).into());
        }
        Ok(())
    }

    fn open_frame(&mut self, anchor: usize, open: OpenCollection, span: Span) -> Result<(), YamlError> {
        if self.stack.len() >= DEPTH_MAX {
            return Err(too_deep_error(span, &self.source).into());
        }
        self.stack.push(OpenFrame { span, anchor, open });
        Ok(())
    }

    fn close_frame(&mut self, end: Span) -> Result<(), YamlError> {
        let Some(frame) = self.stack.pop() else {
            return Ok(());
        };
        let mut span = frame.span;
        span.end = span.end.max(end.end);
        let value = match frame.open {
            OpenCollection::List(items) => NodeValue::List(items),
            OpenCollection::Map(map) if map.is_bare_template => self.bare_template(span),
            OpenCollection::Map(map) => NodeValue::Map(close_map(map)),
        };
        let node = Node { span, value };
        self.store_anchor(frame.anchor, &node, span)?;
        self.attach_node(node, None, span)
    }

    /// Reports a template whose quotes were probably forgotten. Parsing continues as if it were quoted, so that it
    /// causes no further errors.
    fn bare_template(&mut self, span: Span) -> NodeValue {
        let slice = &self.source.text[span.start as usize..span.end as usize];
        let text = slice.trim_end().to_owned();
        let error = self
            .error("E0010", "unquoted template", span)
            .with_label(format!("quote it: `\"{text}\"`"));
        self.diagnostics.push(error);
        NodeValue::Text(Scalar {
            text: text.into(),
            quoting: ScalarQuoting::Plain,
            is_raw: false,
        })
    }

    /// Adds a finished node to its parent; `plain` is its text if it is a plain scalar.
    fn attach_node(&mut self, node: Node, plain: Option<&str>, span: Span) -> Result<(), YamlError> {
        self.count_node(span)?;
        let Some(frame) = self.stack.last_mut() else {
            self.roots.push(node);
            return Ok(());
        };
        let outer = frame.span;
        let map = match &mut frame.open {
            OpenCollection::List(items) => {
                items.push(node);
                return Ok(());
            }
            OpenCollection::Map(map) => map,
        };
        match map.key.take() {
            None => {
                let key = self.build_key(&node, plain, outer);
                self.current_map().key = Some(key);
            }
            Some(MapKey::Invalid) => {}
            Some(MapKey::Merge) => self.merge(node, span),
            Some(MapKey::Text(key, key_span)) => self.insert(key, key_span, node),
        }
        Ok(())
    }

    fn current_map(&mut self) -> &mut OpenMap {
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            Some(OpenCollection::Map(map)) => map,
            _ => unreachable!("keys are only added to an open map"),
        }
    }

    fn build_key(&mut self, node: &Node, plain: Option<&str>, outer: Span) -> MapKey {
        if plain == Some("<<") {
            return MapKey::Merge;
        }
        match &node.value {
            NodeValue::Text(text) => MapKey::Text(text.text.clone(), node.span),
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) => {
                let text = plain.map_or_else(|| node.to_json().to_string(), str::to_owned);
                MapKey::Text(text.into(), node.span)
            }
            NodeValue::List(_) | NodeValue::Map(_) => {
                if node.span.start == outer.start + 1 && node.as_map().is_some() {
                    self.current_map().is_bare_template = true;
                } else {
                    let message = format!("a key must be text, not {}", node.describe());
                    let error = self.error("E0009", message, node.span).with_label("this key");
                    self.diagnostics.push(error);
                }
                MapKey::Invalid
            }
        }
    }

    fn insert(&mut self, key: Arc<str>, span: Span, value: Node) {
        let map = self.current_map();
        if let Some(first) = map.key_spans.get(&key).copied() {
            let message = format!("the key `{key}` appears twice");
            let error = self
                .error("E0006", message, span)
                .with_label(format!("first on line {}", first.line));
            self.diagnostics.push(error);
            return;
        }
        map.key_spans.insert(key.clone(), span);
        map.entries.push(MapEntry { key, span, value });
    }

    fn merge(&mut self, node: Node, span: Span) {
        let maps = match node.value {
            NodeValue::Map(_) => vec![node],
            NodeValue::List(items) if items.iter().all(|item| item.as_map().is_some()) => items,
            _ => {
                let message = format!("`<<` needs a map or a list of maps, not {}", node.describe());
                let error = self
                    .error("E0008", message, span)
                    .with_label("merge a map: `<<: *name`");
                self.diagnostics.push(error);
                return;
            }
        };
        self.current_map().merge_nodes.extend(maps);
    }

    fn store_anchor(&mut self, anchor: usize, node: &Node, span: Span) -> Result<(), YamlError> {
        if anchor == 0 {
            return Ok(());
        }
        let weight = node.weight();
        self.charge(weight, span)?;
        let anchored = AnchoredNode {
            node: node.clone(),
            weight,
            height: node.height(),
        };
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn expand_alias(&mut self, anchor: usize, span: Span) -> Result<Node, YamlError> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            let message = "an alias is used inside the value it refers to";
            return Err(self.error("E0008", message, span).with_label("this alias").into());
        };
        if self.stack.len() + anchored.height > DEPTH_MAX {
            return Err(too_deep_error(span, &self.source).into());
        }
        let (node, weight) = (anchored.node.clone(), anchored.weight);
        self.charge(weight, span)?;
        Ok(node)
    }

    fn charge(&mut self, weight: usize, span: Span) -> Result<(), YamlError> {
        self.expanded += weight;
        if self.expanded > EXPANSION_MAX {
            let message = "the document is too large after its aliases are expanded";
            let error = self.error("E0005", message, span);
            return Err(error.with_label("this one exceeds the limit").into());
        }
        Ok(())
    }
}

/// Keys of the map override merged ones, and an earlier merge overrides a later one.
fn close_map(map: OpenMap) -> Vec<MapEntry> {
    let OpenMap {
        mut entries,
        key_spans: mut keys,
        merge_nodes: merged,
        ..
    } = map;
    for node in merged {
        let NodeValue::Map(from) = node.value else {
            continue;
        };
        for entry in from {
            if keys.insert(entry.key.clone(), entry.span).is_none() {
                entries.push(entry);
            }
        }
    }
    entries
}

/// Returns a tag as written; the library expands `!!`.
fn format_tag(tag: &Tag) -> String {
    if tag.is_yaml_core_schema() {
        format!("!!{}", tag.suffix)
    } else {
        tag.to_string()
    }
}

fn quoting_of(style: ScalarStyle) -> ScalarQuoting {
    match style {
        ScalarStyle::Plain => ScalarQuoting::Plain,
        ScalarStyle::SingleQuoted => ScalarQuoting::SingleQuoted,
        ScalarStyle::DoubleQuoted => ScalarQuoting::DoubleQuoted,
        ScalarStyle::Literal | ScalarStyle::Folded => ScalarQuoting::Block,
    }
}

/// The error for text that is nested too deeply.
pub(crate) fn too_deep_error(span: Span, source: &SourceText) -> Diagnostic {
    let message = format!("collections are nested more than {DEPTH_MAX} levels deep");
    Diagnostic::new("E0004", message, span, source).with_label("this level is too deep")
}
