//! Shared code for inserting values into Python, Rhai and jq code: program parts and texts of values.

use language::template::{CodePiece, Piece};
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};

/// Message of a value directly next to a name.
pub(crate) const VALUE_IN_NAME: &str =
    "a value cannot be part of a name; mark it with `| ident`, or pass it under `input`";

/// Part of a program: code, or a value that must not become code.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgramPart {
    Text(String),
    Value { value: Value, is_json: bool },
}

/// Splits a program into parts. Adjacent texts are joined, so that no token is split between two parts.
pub(crate) fn program_parts(
    pieces: &[CodePiece],
    to_name: impl for<'v> Fn(&'v Value) -> Result<&'v str, TaskError>,
) -> Result<Vec<ProgramPart>, TaskError> {
    let mut parts = Vec::new();
    for CodePiece { piece, is_json } in pieces {
        let text = match piece {
            Piece::Text(text) | Piece::Raw(text) => text,
            Piece::Ident(value) => to_name(value)?,
            Piece::Value(value) => {
                parts.push(ProgramPart::Value {
                    value: value.clone(),
                    is_json: *is_json,
                });
                continue;
            }
        };
        match parts.last_mut() {
            Some(ProgramPart::Text(before)) => before.push_str(text),
            _ => parts.push(ProgramPart::Text(text.to_owned())),
        }
    }
    Ok(parts)
}

/// Value to insert into code: JSON text that a template produced is parsed.
pub(crate) fn code_value(value: &Value, is_json: bool) -> Value {
    let parse = || serde_json::from_str(value.as_str()?).ok();
    let parsed: Option<Value> = is_json.then(parse).flatten();
    parsed.unwrap_or_else(|| value.clone())
}

/// Joins the items of a list literal.
pub(crate) fn join_items(items: &[Value], literal: fn(&Value) -> String) -> String {
    let items: Vec<String> = items.iter().map(literal).collect();
    items.join(", ")
}

/// Joins the entries `key: value` of a map literal.
pub(crate) fn join_entries(
    map: &Map<String, Value>,
    key_literal: fn(&str) -> String,
    value_literal: fn(&Value) -> String,
) -> String {
    let entry = |(key, value): (&String, &Value)| format!("{}: {}", key_literal(key), value_literal(value));
    let entries: Vec<String> = map.iter().map(entry).collect();
    entries.join(", ")
}

/// The value as a name, if it is valid and not a keyword.
pub(crate) fn identifier<'v>(value: &'v Value, keywords: &[&str]) -> Option<&'v str> {
    let text = value.as_str()?;
    let is_word = text.chars().all(is_word_character);
    let has_valid_start = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_word && has_valid_start && !keywords.contains(&text)).then_some(text)
}

/// Whether a character can be part of a name or a number.
pub(crate) fn is_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Error of a value that cannot be inserted at its position.
pub(crate) fn placement_error(code: &'static str, key: &str, message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, code, message).with_detail("key", key)
}
