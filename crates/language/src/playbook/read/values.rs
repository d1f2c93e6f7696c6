//! Reads single values: words, numbers, durations, templates.

use std::time::Duration;

use model::duration;
use model::id::Name;

use crate::playbook::FieldMode;
use crate::playbook::read::programs::Insertion;
use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::template_uses::TemplateUse;
use crate::template::{SyntaxError, Template, Tree};
use crate::yaml::{Node, NodeValue};

impl PlaybookReader {
    /// Reports a value of the wrong type.
    pub(crate) fn report_wrong_type(&mut self, node: &Node, subject: &str, expected: &str) {
        let message = format!("{subject} must be {expected}, not {}", node.describe());
        self.report_error("E0101", message, node.span, format!("write {expected}"));
    }

    /// Reads text; numbers and booleans are converted to text.
    pub(crate) fn read_text(&mut self, node: &Node, subject: &str) -> Option<String> {
        match &node.value {
            NodeValue::Text(text) => Some(text.text.to_string()),
            NodeValue::Number(number) => Some(number.to_string()),
            NodeValue::Bool(value) => Some(value.to_string()),
            NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => {
                self.report_wrong_type(node, subject, "text");
                None
            }
        }
    }

    /// Reads a name: text that is not empty.
    pub(crate) fn read_name(&mut self, node: &Node, subject: &str) -> Option<Name> {
        let text = self.read_text(node, subject)?;
        if text.trim().is_empty() {
            self.report_error("E0101", format!("{subject} is empty"), node.span, "write a name");
            return None;
        }
        Some(text.into())
    }

    pub(crate) fn read_boolean(&mut self, node: &Node, subject: &str) -> Option<bool> {
        if let NodeValue::Bool(value) = node.value {
            return Some(value);
        }
        self.report_wrong_type(node, subject, "`true` or `false`");
        None
    }

    /// Reads one of several words.
    pub(crate) fn read_word<T: Copy>(&mut self, node: &Node, subject: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.read_text(node, subject)?;
        if let Some((_, value)) = words.iter().find(|(option, _)| *option == text) {
            return Some(*value);
        }
        let options: Vec<_> = words.iter().map(|(option, _)| *option).collect();
        let valid_values = format!("({subject} is one of: {})", options.join(" "));
        let label = match self.suggest(&text, options) {
            Some(suggestion) => format!("did you mean `{suggestion}`?     {valid_values}"),
            None => valid_values,
        };
        let message = format!("invalid value `{text}` for `{subject}`");
        self.report_error("E0104", message, node.span, label);
        None
    }

    pub(crate) fn read_duration(&mut self, node: &Node, subject: &str) -> Option<Duration> {
        let value = duration::parse(&node.to_json());
        if value.is_none() {
            let message = format!("{subject} must be a duration");
            let label = "write seconds, or `500ms`, `30s`, `1h 30m`, `PT1H`";
            self.report_error("E0105", message, node.span, label);
        }
        value
    }

    pub(crate) fn read_size(&mut self, node: &Node, subject: &str) -> Option<u64> {
        let value = duration::parse_size(&node.to_json());
        if value.is_none() {
            let message = format!("{subject} must be a size");
            self.report_error("E0105", message, node.span, "write bytes, or `64KiB`, `1MB`");
        }
        value
    }

    /// Reads an integer of at least 1.
    pub(crate) fn read_whole_number(&mut self, node: &Node, subject: &str) -> Option<u32> {
        let number = node.to_json().as_u64().and_then(|count| u32::try_from(count).ok());
        let number = number.filter(|count| *count > 0);
        if number.is_none() {
            let message = format!("{subject} must be a whole number of at least 1");
            self.report_error("E0105", message, node.span, "write a number");
        }
        number
    }

    /// Reads an integer of at least 1, or a template for one.
    pub(crate) fn read_count(&mut self, node: &Node, subject: &str) -> Option<Tree> {
        let is_template = node.as_text().is_some_and(|text| is_template(&text.text));
        let is_count = node.to_json().as_u64().is_some_and(|count| count > 0);
        if is_template || is_count {
            return Some(self.read_tree(node));
        }
        let message = format!("{subject} must be a whole number of at least 1");
        self.report_error("E0105", message, node.span, "write a number, or a template");
        None
    }

    /// Reads a duration, or a template for one.
    pub(crate) fn read_delay(&mut self, node: &Node, subject: &str) -> Option<Tree> {
        let is_template = node.as_text().is_some_and(|text| is_template(&text.text));
        if is_template || self.read_duration(node, subject).is_some() {
            return Some(self.read_tree(node));
        }
        None
    }

    /// Reads a value in which any scalar may be a template.
    pub(crate) fn read_tree(&mut self, node: &Node) -> Tree {
        match &node.value {
            NodeValue::Text(text) if !text.is_raw && is_template(&text.text) => self.read_template(node),
            NodeValue::List(items) => {
                let trees = items.iter().map(|item| self.read_tree(item)).collect();
                to_list_tree(trees)
            }
            NodeValue::Map(entries) => {
                let pair = |reader: &mut Self, entry: &crate::yaml::MapEntry| {
                    (entry.key.to_string(), reader.read_tree(&entry.value))
                };
                to_map_tree(entries.iter().map(|entry| pair(self, entry)).collect())
            }
            _ => Tree::Literal(node.to_json()),
        }
    }

    /// Reads the value of a tool's key according to its rendering mode.
    pub(crate) fn read_field(&mut self, node: &Node, mode: FieldMode) -> Tree {
        let is_comment_only = |text: &str| !text.contains("{{") && !text.contains("{%");
        match (mode, node.as_str()) {
            (FieldMode::Code(_), Some(text)) if is_comment_only(text) => Tree::Literal(node.to_json()),
            (FieldMode::Code(_) | FieldMode::Pieces, _) => self.read_program(node),
            (FieldMode::Value | FieldMode::Endpoint | FieldMode::Reference, _) => self.read_tree(node),
        }
    }

    pub(crate) fn read_template(&mut self, node: &Node) -> Tree {
        let text = node.as_str().unwrap_or_default();
        if !self.may_compile(node) {
            return Tree::Literal(node.to_json());
        }
        match Template::parse(text, node.span) {
            Ok(template) => {
                self.record_use(&template, node, Vec::new());
                Tree::Template(template)
            }
            Err(error) => {
                self.report_bad_template(node, &error);
                Tree::Literal(node.to_json())
            }
        }
    }

    /// Reads a condition: text with or without braces, or a boolean.
    pub(crate) fn read_condition(&mut self, node: &Node, subject: &str) -> Option<Template> {
        let text = match &node.value {
            NodeValue::Text(text) => text.text.to_string(),
            NodeValue::Bool(value) => value.to_string(),
            _ => {
                self.report_wrong_type(node, subject, "a condition such as `\"{{ ctx.ready }}\"`");
                return None;
            }
        };
        if !self.may_compile(node) {
            return None;
        }
        match Template::condition(&text, node.span) {
            Ok(template) => {
                self.record_use(&template, node, Vec::new());
                Some(template)
            }
            Err(error) => {
                self.report_bad_template(node, &error);
                None
            }
        }
    }

    pub(crate) fn record_use(&mut self, template: &Template, node: &Node, insertions: Vec<Insertion>) {
        self.uses.push(TemplateUse {
            template: template.clone(),
            node: node.clone(),
            insertions,
            step: self.step,
            site: self.site,
        });
    }

    fn report_bad_template(&mut self, node: &Node, error: &SyntaxError) {
        let full_range = 0..node.as_str().map_or(0, str::len);
        let range = error.range.clone().unwrap_or(full_range);
        let span = node.locate(&self.source.text, &range);
        let message = format!("template syntax error: {}", error.message);
        let diagnostic = self
            .diagnostic("T0101", message, span)
            .with_label("here")
            .with_help("if this is not a template, tag the text: `!raw \"…\"`");
        self.report(diagnostic);
    }
}

/// Whether text contains a template. `{#` alone is common in shell (`${#list}`) and only counts with its end.
pub(crate) fn is_template(text: &str) -> bool {
    let has_comment = || {
        let comment = text.find("{#");
        comment.is_some_and(|offset| text[offset..].contains("#}"))
    };
    text.contains("{{") || text.contains("{%") || has_comment()
}

pub(crate) fn to_list_tree(trees: Vec<Tree>) -> Tree {
    let literal = |tree: &Tree| matches!(tree, Tree::Literal(_));
    if !trees.iter().all(literal) {
        return Tree::List(trees);
    }
    let values = trees.into_iter().filter_map(literal_value);
    Tree::Literal(serde_json::Value::Array(values.collect()))
}

fn to_map_tree(pairs: Vec<(String, Tree)>) -> Tree {
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
