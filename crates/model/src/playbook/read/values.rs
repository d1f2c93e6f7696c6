//! Reads single values: words, numbers, durations, templates.

use std::time::Duration;

use crate::duration;
use crate::id::Name;
use crate::playbook::FieldMode;
use crate::playbook::read::programs::Insertion;
use crate::playbook::read::reader::Reader;
use crate::playbook::read::uses::Use;
use crate::template::{SyntaxError, Template, Tree};
use crate::yaml::{Node, Value};

impl Reader {
    /// Reports a value of the wrong type.
    pub(crate) fn wrong_type(&mut self, node: &Node, what: &str, wanted: &str) {
        let message = format!("{what} must be {wanted}, not {}", node.describe());
        self.error("E0101", message, node.span, format!("write {wanted}"));
    }

    /// Reads text; numbers and booleans are converted to text.
    pub(crate) fn text(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.text.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong_type(node, what, "text");
                None
            }
        }
    }

    /// Reads a name: text that is not empty.
    pub(crate) fn name(&mut self, node: &Node, what: &str) -> Option<Name> {
        let text = self.text(node, what)?;
        if text.trim().is_empty() {
            self.error(
                "E0101",
                format!("{what} is empty"),
                node.span,
                "write a name",
            );
            return None;
        }
        Some(text.into())
    }

    pub(crate) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        self.wrong_type(node, what, "`true` or `false`");
        None
    }

    /// Reads one of several words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        node: &Node,
        what: &str,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(node, what)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let takes = format!("({what} is one of: {})", known.join(" "));
        let label = match self.suggest(&text, known) {
            Some(meant) => format!("did you mean `{meant}`?     {takes}"),
            None => takes,
        };
        let message = format!("invalid value `{text}` for `{what}`");
        self.error("E0104", message, node.span, label);
        None
    }

    pub(crate) fn duration(&mut self, node: &Node, what: &str) -> Option<Duration> {
        let value = duration::parse(&node.to_json());
        if value.is_none() {
            let message = format!("{what} must be a duration");
            let label = "write seconds, or `500ms`, `30s`, `1h 30m`, `PT1H`";
            self.error("E0105", message, node.span, label);
        }
        value
    }

    pub(crate) fn size(&mut self, node: &Node, what: &str) -> Option<u64> {
        let value = duration::parse_size(&node.to_json());
        if value.is_none() {
            let message = format!("{what} must be a size");
            self.error(
                "E0105",
                message,
                node.span,
                "write bytes, or `64KiB`, `1MB`",
            );
        }
        value
    }

    /// Reads an integer of at least 1.
    pub(crate) fn whole_number(&mut self, node: &Node, what: &str) -> Option<u32> {
        let number = node
            .to_json()
            .as_u64()
            .and_then(|count| u32::try_from(count).ok());
        let number = number.filter(|count| *count > 0);
        if number.is_none() {
            let message = format!("{what} must be a whole number of at least 1");
            self.error("E0105", message, node.span, "write a number");
        }
        number
    }

    /// Reads an integer of at least 1, or a template for one.
    pub(crate) fn count(&mut self, node: &Node, what: &str) -> Option<Tree> {
        let is_template = node.as_text().is_some_and(|text| is_template(&text.text));
        let is_count = node.to_json().as_u64().is_some_and(|count| count > 0);
        if is_template || is_count {
            return Some(self.tree(node));
        }
        let message = format!("{what} must be a whole number of at least 1");
        self.error("E0105", message, node.span, "write a number, or a template");
        None
    }

    /// Reads a duration, or a template for one.
    pub(crate) fn delay(&mut self, node: &Node, what: &str) -> Option<Tree> {
        let is_template = node.as_text().is_some_and(|text| is_template(&text.text));
        if is_template || self.duration(node, what).is_some() {
            return Some(self.tree(node));
        }
        None
    }

    /// Reads a value in which any scalar may be a template.
    pub(crate) fn tree(&mut self, node: &Node) -> Tree {
        match &node.value {
            Value::Text(text) if !text.raw && is_template(&text.text) => self.template(node),
            Value::List(items) => {
                let trees = items.iter().map(|item| self.tree(item)).collect();
                list(trees)
            }
            Value::Map(entries) => {
                let pair = |reader: &mut Self, entry: &crate::yaml::Entry| {
                    (entry.key.to_string(), reader.tree(&entry.value))
                };
                map(entries.iter().map(|entry| pair(self, entry)).collect())
            }
            _ => Tree::Literal(node.to_json()),
        }
    }

    /// Reads the value of a tool's key according to its rendering mode.
    pub(crate) fn field(&mut self, node: &Node, mode: FieldMode) -> Tree {
        let is_comment_only = |text: &str| !text.contains("{{") && !text.contains("{%");
        match (mode, node.as_str()) {
            (FieldMode::Code(_), Some(text)) if is_comment_only(text) => {
                Tree::Literal(node.to_json())
            }
            (FieldMode::Code(_) | FieldMode::Pieces, _) => self.program(node),
            (FieldMode::Value | FieldMode::End | FieldMode::Reference, _) => self.tree(node),
        }
    }

    pub(crate) fn template(&mut self, node: &Node) -> Tree {
        let text = node.as_str().unwrap_or_default();
        if !self.may_compile(node) {
            return Tree::Literal(node.to_json());
        }
        match Template::parse(text, node.span) {
            Ok(template) => {
                self.remember(&template, node, Vec::new());
                Tree::Template(template)
            }
            Err(error) => {
                self.bad_template(node, &error);
                Tree::Literal(node.to_json())
            }
        }
    }

    /// Reads a condition: text with or without braces, or a boolean.
    pub(crate) fn condition(&mut self, node: &Node, what: &str) -> Option<Template> {
        let text = match &node.value {
            Value::Text(text) => text.text.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => {
                self.wrong_type(node, what, "a condition such as `\"{{ ctx.ready }}\"`");
                return None;
            }
        };
        if !self.may_compile(node) {
            return None;
        }
        match Template::condition(&text, node.span) {
            Ok(template) => {
                self.remember(&template, node, Vec::new());
                Some(template)
            }
            Err(error) => {
                self.bad_template(node, &error);
                None
            }
        }
    }

    pub(crate) fn remember(
        &mut self,
        template: &Template,
        node: &Node,
        insertions: Vec<Insertion>,
    ) {
        self.uses.push(Use {
            template: template.clone(),
            node: node.clone(),
            insertions,
            step: self.step,
            place: self.place,
        });
    }

    fn bad_template(&mut self, node: &Node, error: &SyntaxError) {
        let whole = 0..node.as_str().map_or(0, str::len);
        let range = error.range.clone().unwrap_or(whole);
        let span = node.locate(&self.source.text, &range);
        let message = format!("template syntax error: {}", error.message);
        let diagnostic = self
            .diagnostic("T0101", message, span)
            .label("here")
            .help("if this is not a template, tag the text: `!raw \"…\"`");
        self.report(diagnostic);
    }
}

/// Whether text contains a template. `{#` alone is common in shell (`${#list}`) and only counts with its end.
pub(crate) fn is_template(text: &str) -> bool {
    let has_comment = || {
        let comment = text.find("{#");
        comment.is_some_and(|at| text[at..].contains("#}"))
    };
    text.contains("{{") || text.contains("{%") || has_comment()
}

pub(crate) fn list(trees: Vec<Tree>) -> Tree {
    let literal = |tree: &Tree| matches!(tree, Tree::Literal(_));
    if !trees.iter().all(literal) {
        return Tree::List(trees);
    }
    let values = trees.into_iter().filter_map(literal_value);
    Tree::Literal(serde_json::Value::Array(values.collect()))
}

fn map(pairs: Vec<(String, Tree)>) -> Tree {
    let literal = |(_, tree): &(String, Tree)| matches!(tree, Tree::Literal(_));
    if !pairs.iter().all(literal) {
        return Tree::Map(pairs);
    }
    let values = pairs.into_iter();
    let values = values.filter_map(|(key, tree)| Some((key, literal_value(tree)?)));
    Tree::Literal(serde_json::Value::Object(values.collect()))
}

fn literal_value(tree: Tree) -> Option<serde_json::Value> {
    match tree {
        Tree::Literal(value) => Some(value),
        Tree::Template(_) | Tree::List(_) | Tree::Map(_) => None,
    }
}
