//! Descriptions of words at a position.

use crate::completion::expected_value::ExpectedValue;
use crate::completion::locate::{CursorTarget, Position, locate};
use crate::completion::outline::{NodeKind, Outline, OutlineValue};
use crate::completion::templates::{WordContext, find_name, split_last_word};
use crate::playbook::kinds;
use crate::reference::{FILTER_DOCS, FUNCTION_DOCS, KeyDoc, TEST_DOCS, ValueType, WordDoc, find_kind_doc};

/// The description of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hover {
    /// Where the word begins.
    pub start: Position,
    /// Where it ends.
    pub end: Position,
    /// The word, with its type.
    pub title: String,
    /// One sentence about it.
    pub text: String,
    /// What applies without it; empty if nothing does.
    pub default: String,
    /// The values that it accepts, if they are a fixed set.
    pub values: Vec<String>,
}

/// What a word means.
struct WordMeaning {
    title: String,
    text: &'static str,
    doc: Option<&'static KeyDoc>,
}

/// Describes the word at a position of a text, which may be broken.
pub fn hover(text: &str, position: Position) -> Option<Hover> {
    let outline = Outline::read(text);
    let offset = position.to_offset(text);
    let (start, end) = word_around(text, offset)?;
    let meaning = match locate(&outline, offset) {
        CursorTarget::Key { parent, node, .. } => describe_key(&outline, parent, node?)?,
        CursorTarget::Value { node, .. } => describe_value(&outline, node)?,
        CursorTarget::Expression { start: from, .. } => describe_expression(&text[from.min(end)..end])?,
        CursorTarget::Text => return None,
    };
    let values = meaning.doc.map(|doc| doc.value.words()).unwrap_or_default();
    Some(Hover {
        start: Position::from_offset(text, start),
        end: Position::from_offset(text, end),
        title: meaning.title,
        text: meaning.text.to_owned(),
        default: meaning.doc.map(|doc| doc.default.to_owned()).unwrap_or_default(),
        values: values.into_iter().map(str::to_owned).collect(),
    })
}

/// The start and the end of the word at an offset.
fn word_around(text: &str, offset: usize) -> Option<(usize, usize)> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let start = text[..offset].trim_end_matches(is_word).len();
    let after = &text[offset..];
    let end = offset + after.len() - after.trim_start_matches(is_word).len();
    (start < end).then_some((start, end))
}

fn describe_key(outline: &Outline<'_>, parent: usize, node: usize) -> Option<WordMeaning> {
    let NodeKind::Key(key) = outline.node(node).kind else {
        return None;
    };
    let doc = ExpectedValue::of(outline, parent).find_key(outline, parent, key)?;
    Some(WordMeaning {
        title: format!("{}: {}", doc.key, doc.value.describe()),
        text: doc.text,
        doc: Some(doc),
    })
}

fn describe_value(outline: &Outline<'_>, node: usize) -> Option<WordMeaning> {
    let ExpectedValue::Value(doc) = ExpectedValue::of(outline, node) else {
        return None;
    };
    let OutlineValue::Scalar(scalar) = outline.node(node).value else {
        return None;
    };
    if matches!(doc.value, ValueType::ToolKind) {
        let kind = find_kind_doc(kinds::find_kind(scalar)?.name)?;
        return Some(WordMeaning {
            title: format!("{}: tool kind", kind.kind),
            text: kind.text,
            doc: None,
        });
    }
    doc.value.words().contains(&scalar).then(|| WordMeaning {
        title: format!("{}: {scalar}", doc.key),
        text: doc.text,
        doc: Some(doc),
    })
}

/// Describes the last word of an expression.
fn describe_expression(expression: &str) -> Option<WordMeaning> {
    let (before, start) = split_last_word(expression);
    let name = &expression[start..];
    let find = |docs: &'static [WordDoc], what: &str| {
        let doc = docs.iter().find(|doc| doc.name == name)?;
        Some(WordMeaning {
            title: format!("{name}: {what}"),
            text: doc.text,
            doc: None,
        })
    };
    match before {
        WordContext::Pipe => find(FILTER_DOCS, "filter"),
        WordContext::Is => find(TEST_DOCS, "test"),
        WordContext::Path(_) => None,
        WordContext::Other => find(FUNCTION_DOCS, "function").or_else(|| {
            let doc = find_name(name)?;
            Some(WordMeaning {
                title: format!("{name}: name"),
                text: doc.text,
                doc: None,
            })
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hover at the mark `^` of a text, as `title. text`.
    fn describe(marked: &str) -> Option<String> {
        let offset = marked.find('^').unwrap();
        let text = marked.replace('^', "");
        let hover = hover(&text, Position::from_offset(&text, offset))?;
        Some(format!("{} — {}", hover.title, hover.text))
    }

    #[test]
    fn a_key_is_described_with_its_type() {
        let described = describe("workflow:\n  - step: a\n    lo^op: {}\n").unwrap();
        assert!(
            described.starts_with("loop: map — Runs the pipeline once for each element"),
            "{described}"
        );
    }

    #[test]
    fn a_kind_a_filter_and_a_name_are_described() {
        let text = |value: &str| format!("workflow:\n  - step: a\n    tool: {value}\n");
        assert_eq!(
            describe(&text("{kind: ht^tp}")).unwrap(),
            "http: tool kind — Sends an HTTP request."
        );
        let filter = describe(&text("{kind: noop, result: \"{{ x | joi^n(',') }}\"}")).unwrap();
        assert!(filter.starts_with("join: filter"), "{filter}");
        let name = describe(&text("{kind: noop, result: \"{{ work^load.x }}\"}")).unwrap();
        assert!(name.starts_with("workload: name"), "{name}");
    }

    #[test]
    fn text_and_unknown_words_have_no_description() {
        assert_eq!(describe("# kin^d\n"), None);
        assert_eq!(describe("workload:\n  ki^nd: 1\n"), None);
        assert_eq!(
            describe("workflow:\n  - step: a\n    tool:\n      kind: python\n      code: |\n        lo^op: 1\n"),
            None
        );
    }
}
