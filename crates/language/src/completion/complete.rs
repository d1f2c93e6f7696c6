//! Completions at a position.

use std::collections::BTreeSet;

use crate::completion::document;
use crate::completion::expected_value::ExpectedValue;
use crate::completion::locate::{CursorTarget, Position, locate};
use crate::completion::outline::{NodeKind, Outline, OutlineValue};
use crate::completion::templates::complete_expression;
use crate::reference::{KIND_DOCS, KeyDoc, ValueType};

/// Maximum number of completions. If there are more, those that do not begin with the typed word are left out, and then
/// the last ones.
pub const COMPLETIONS_MAX: usize = 300;

/// Something that can be written at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The word.
    pub label: String,
    /// What it is.
    pub kind: CompletionKind,
    /// Its type or default, in a few words; may be empty.
    pub detail: String,
    /// One sentence about it; may be empty.
    pub text: String,
    /// What replaces the typed word. Lines are indented already.
    pub insert: String,
}

/// What a completion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionKind {
    /// A key of a map.
    Key,
    /// A value of a key.
    Value,
    /// A name that the document or the catalog defines.
    Name,
    /// A filter of templates.
    Filter,
    /// A test of templates.
    Test,
    /// A function of templates.
    Function,
}

/// The completions at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionList {
    /// Where the typed word begins, which a completion replaces.
    pub start: Position,
    /// The completions, the most useful first.
    pub completions: Vec<Completion>,
    /// Whether there are no others.
    pub is_complete: bool,
    /// Names that the caller can add, because they are not in the document.
    pub external: Option<ExternalNames>,
}

/// Names that are not in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExternalNames {
    /// Paths of playbooks in the catalog.
    Playbooks,
    /// Names of credentials.
    Credentials,
}

impl Completion {
    /// Creates the completion of a word that is inserted as it is.
    pub fn new(label: &str, kind: CompletionKind, text: &str) -> Self {
        Self {
            label: label.to_owned(),
            kind,
            detail: String::new(),
            text: text.to_owned(),
            insert: label.to_owned(),
        }
    }
}

/// Lists what can be written at a position of a text, which may be broken.
pub fn complete(text: &str, position: Position) -> CompletionList {
    let outline = Outline::read(text);
    let offset = position.to_offset(text);
    let (start, completions, external) = match locate(&outline, offset) {
        CursorTarget::Key { parent, node, start } => (start, complete_key(&outline, parent, node, start), None),
        CursorTarget::Value { node, start } => {
            let (completions, external) = complete_value(&outline, node);
            (start, completions, external)
        }
        CursorTarget::Expression { node, start } => {
            let (start, completions) = complete_expression(&outline, node, start..offset);
            (start, completions, None)
        }
        CursorTarget::Text => (offset, Vec::new(), None),
    };
    let (completions, is_complete) = limit(completions, &text[start..offset.max(start)]);
    CompletionList {
        start: Position::from_offset(text, start),
        completions,
        is_complete,
        external,
    }
}

/// Leaves out completions beyond the limit.
fn limit(mut completions: Vec<Completion>, typed: &str) -> (Vec<Completion>, bool) {
    if completions.len() <= COMPLETIONS_MAX {
        return (completions, true);
    }
    completions.retain(|completion| completion.label.starts_with(typed));
    completions.truncate(COMPLETIONS_MAX);
    (completions, false)
}

fn complete_key(outline: &Outline<'_>, parent: usize, node: Option<usize>, start: usize) -> Vec<Completion> {
    let is_item = outline.node(parent).kind == NodeKind::Item;
    let expected = ExpectedValue::of(outline, parent);
    if !is_item && let Some(item) = list_item(expected, outline, parent, node) {
        return item;
    }
    let others = outline.children(parent).filter(|child| Some(*child) != node);
    let used: BTreeSet<&str> = others
        .filter_map(|child| match outline.node(child).kind {
            NodeKind::Key(key) => expected.find_key(outline, parent, key).map(|doc| doc.key),
            _ => None,
        })
        .collect();
    let keys = expected.list_keys(outline, parent).into_iter();
    let insertion = KeyInsertion::at(outline, node, start);
    keys.filter(|doc| !used.contains(doc.key))
        .map(|doc| complete_one_key(doc, &insertion))
        .collect()
}

/// The start of an item, where a list is expected and its first or next item is missing.
fn list_item(
    expected: ExpectedValue,
    outline: &Outline<'_>,
    parent: usize,
    node: Option<usize>,
) -> Option<Vec<Completion>> {
    let ExpectedValue::Value(doc) = expected else {
        return None;
    };
    let first_key = match doc.value {
        ValueType::List(_) => first_key_of_items(doc.value)?,
        ValueType::MapOrList(..) | ValueType::Pipeline
            if outline
                .children(parent)
                .any(|child| outline.node(child).kind == NodeKind::Item) =>
        {
            ""
        }
        _ => return None,
    };
    if node.is_some_and(|node| matches!(outline.node(node).kind, NodeKind::Key(_))) {
        return Some(Vec::new());
    }
    let insert = if first_key.is_empty() {
        "- ".to_owned()
    } else {
        format!("- {first_key}: ")
    };
    let mut item = Completion::new(insert.trim_end(), CompletionKind::Key, doc.text);
    item.insert = insert;
    "list item".clone_into(&mut item.detail);
    Some(vec![item])
}

/// The first key of the items of a list.
fn first_key_of_items(list: ValueType) -> Option<&'static str> {
    let section = list.section().and_then(crate::reference::find_section)?;
    section.keys.first().map(|doc| doc.key)
}

/// How a key is inserted.
struct KeyInsertion {
    /// Whether a colon follows already.
    has_colon: bool,
    /// The indentation of its value on the next line; `None` inside a flow collection.
    indent: Option<usize>,
}

impl KeyInsertion {
    fn at(outline: &Outline<'_>, node: Option<usize>, start: usize) -> Self {
        let has_colon = node.is_some_and(|node| matches!(outline.node(node).kind, NodeKind::Key(_)));
        let line_start = outline.text[..start].rfind('\n').map_or(0, |end| end + 1);
        let before = &outline.text[line_start..start];
        let is_block = before.chars().all(|character| matches!(character, ' ' | '-'));
        Self {
            has_colon,
            indent: is_block.then_some(before.len() + 2),
        }
    }
}

fn complete_one_key(doc: &KeyDoc, insertion: &KeyInsertion) -> Completion {
    let default = if doc.default.is_empty() {
        String::new()
    } else {
        format!(", default: {}", doc.default)
    };
    let indent = insertion.indent.map(|width| format!("\n{}", " ".repeat(width)));
    let after = match (doc.value, indent) {
        _ if insertion.has_colon => String::new(),
        (ValueType::List(_), Some(indent)) => format!(":{indent}- "),
        (ValueType::Map(_) | ValueType::MapOrList(..) | ValueType::FreeMap, Some(indent)) => format!(":{indent}"),
        (ValueType::Pipeline, Some(indent)) => format!(":{indent}kind: "),
        (ValueType::Code, Some(indent)) => format!(": |{indent}"),
        _ => ": ".to_owned(),
    };
    Completion {
        label: doc.key.to_owned(),
        kind: CompletionKind::Key,
        detail: format!("{}{default}", doc.value.describe()),
        text: doc.text.to_owned(),
        insert: format!("{}{after}", doc.key),
    }
}

fn complete_value(outline: &Outline<'_>, node: usize) -> (Vec<Completion>, Option<ExternalNames>) {
    if outline.node(node).value == OutlineValue::Block {
        return (Vec::new(), None);
    }
    let ExpectedValue::Value(doc) = ExpectedValue::of(outline, node) else {
        return (Vec::new(), None);
    };
    let names = |names: Vec<&str>| {
        let names: BTreeSet<&str> = names.into_iter().collect();
        let names = names.into_iter();
        names
            .map(|name| Completion::new(name, CompletionKind::Name, ""))
            .collect()
    };
    match doc.value {
        ValueType::ToolKind => {
            let kinds = KIND_DOCS.iter();
            let kinds = kinds.map(|kind| Completion::new(kind.kind, CompletionKind::Value, kind.text));
            (kinds.collect(), None)
        }
        // A step has its own name under `step`, which is not completed.
        ValueType::StepName => {
            let steps = document::step_names(outline).into_iter().chain(["end"]);
            (names(steps.collect()), None)
        }
        ValueType::TaskLabel => {
            let labels = document::task_labels(outline, node).into_iter().chain(["previous"]);
            (names(labels.collect()), None)
        }
        ValueType::WorkbookTask => (names(document::workbook_names(outline)), None),
        ValueType::Credential => (
            names(document::keychain_names(outline)),
            Some(ExternalNames::Credentials),
        ),
        ValueType::PlaybookPath => (Vec::new(), Some(ExternalNames::Playbooks)),
        value => {
            let words = value.words().into_iter();
            let words = words.map(|text| Completion::new(text, CompletionKind::Value, ""));
            (words.collect(), None)
        }
    }
}

#[cfg(test)]
mod tests;
