//! Completions inside a template: names and their fields, filters, tests and functions.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::completion::complete::{Completion, CompletionKind};
use crate::completion::document;
use crate::completion::expected_value::name_site;
use crate::completion::outline::Outline;
use crate::reference::{ENVELOPE_FIELDS, FILTER_DOCS, FUNCTION_DOCS, NAMES, NameDoc, TEST_DOCS, WordDoc};

/// What is written before a word of an expression.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WordContext<'t> {
    /// `|`.
    Pipe,
    /// `is`, or `is not`.
    Is,
    /// `name.`, with the path before the word.
    Path(&'t str),
    /// Anything else.
    Other,
}

/// Splits an expression into what is before its last word, and the position of that word.
pub(crate) fn split_last_word(expression: &str) -> (WordContext<'_>, usize) {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let start = expression.trim_end_matches(is_word).len();
    let before = &expression[..start];
    if let Some(path) = before.strip_suffix('.') {
        let path_start = path
            .trim_end_matches(|character: char| is_word(character) || character == '.')
            .len();
        return (WordContext::Path(&path[path_start..]), start);
    }
    let before = before.trim_end();
    let last = before.rsplit([' ', '\n', '(']).next().unwrap_or_default();
    let context = match last {
        _ if before.ends_with('|') => WordContext::Pipe,
        "is" => WordContext::Is,
        "not" if before.trim_end_matches("not").trim_end().ends_with(" is") => WordContext::Is,
        _ => WordContext::Other,
    };
    (context, start)
}

/// Completions at the end of an expression, and where its last word begins.
pub(crate) fn complete_expression(
    outline: &Outline<'_>,
    node: usize,
    expression: Range<usize>,
) -> (usize, Vec<Completion>) {
    let (before, name_start) = split_last_word(&outline.text[expression.clone()]);
    let words = |docs: &'static [WordDoc], kind: CompletionKind| {
        let docs = docs
            .iter()
            .filter(|doc| doc.name.starts_with(|first: char| first.is_ascii_alphabetic()));
        docs.map(|doc| Completion::new(doc.name, kind, doc.text)).collect()
    };
    let completions = match before {
        WordContext::Pipe => words(FILTER_DOCS, CompletionKind::Filter),
        WordContext::Is => words(TEST_DOCS, CompletionKind::Test),
        WordContext::Path(path) => complete_field(outline, node, path),
        WordContext::Other => complete_name(outline, node),
    };
    (expression.start + name_start, completions)
}

/// The names that a template at `node` can read.
fn complete_name(outline: &Outline<'_>, node: usize) -> Vec<Completion> {
    let site = name_site(outline, node);
    let names = NAMES.iter().filter(|doc| doc.sites.contains(&site));
    let mut completions: Vec<Completion> = names
        .map(|doc| Completion::new(doc.name, CompletionKind::Value, doc.text))
        .collect();
    let steps = document::step_names(outline);
    let labels = document::task_labels(outline, node);
    let own: BTreeSet<&str> = steps.into_iter().chain(labels).collect();
    let own = own.into_iter().filter(|name| is_plain(name));
    completions.extend(own.map(|name| Completion::new(name, CompletionKind::Name, "Result of the step or task.")));
    let functions = FUNCTION_DOCS.iter();
    completions.extend(functions.map(|doc| Completion::new(doc.name, CompletionKind::Function, doc.text)));
    completions
}

/// The fields after `path.`.
fn complete_field(outline: &Outline<'_>, node: usize, path: &str) -> Vec<Completion> {
    let names = |names: Vec<&str>| {
        let names: BTreeSet<&str> = names.into_iter().filter(|name| is_plain(name)).collect();
        let names = names.into_iter();
        names
            .map(|name| Completion::new(name, CompletionKind::Name, ""))
            .collect()
    };
    match path {
        "workload" => names(document::section_keys(outline, "workload")),
        "ctx" => {
            let own = document::section_keys(outline, "ctx").into_iter();
            names(own.chain(document::section_keys(outline, "workload")).collect())
        }
        "steps" => names(document::step_names(outline)),
        "results" => names(document::task_labels(outline, node)),
        "keychain" => names(document::keychain_names(outline)),
        "iter" => {
            let fields = find_name("iter").map_or(&[][..], |doc| doc.fields);
            let iterator = document::iterator(outline, node);
            names(fields.iter().copied().chain(iterator).collect())
        }
        _ => match find_name(path) {
            Some(doc) => names(doc.fields.to_vec()),
            None if is_result(outline, node, path) => names(ENVELOPE_FIELDS.to_vec()),
            None => Vec::new(),
        },
    }
}

/// Whether a path is the result of a step or a task.
fn is_result(outline: &Outline<'_>, node: usize, path: &str) -> bool {
    let name = path.strip_prefix("steps.").or_else(|| path.strip_prefix("results."));
    let name = name.unwrap_or(path);
    document::step_names(outline).contains(&name) || document::task_labels(outline, node).contains(&name)
}

/// The description of a name.
pub(crate) fn find_name(name: &str) -> Option<&'static NameDoc> {
    NAMES.iter().find(|doc| doc.name == name)
}

/// Whether templates can read a name without quotes.
fn is_plain(name: &str) -> bool {
    let mut characters = name.chars();
    characters
        .next()
        .is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_')
}
