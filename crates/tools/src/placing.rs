//! What the placing of values in rhai scripts and jq programs shares: the pieces of a program, and texts of values.

use model::outcome::{ErrorKind, TaskError};
use model::template::{CodePiece, Piece};
use serde_json::Value;

/// A part of a program: text that is code, or a value that must not become code.
#[derive(Debug, PartialEq)]
pub(crate) enum ProgramPart {
    Text(String),
    Value { value: Value, is_json: bool },
}

/// The parts of a program. Texts that stand side by side are one part, so that no token is divided between two parts.
pub(crate) fn program_parts(
    pieces: &[CodePiece],
    to_name: impl Fn(&Value) -> Result<String, TaskError>,
) -> Result<Vec<ProgramPart>, TaskError> {
    let mut parts = Vec::new();
    for CodePiece { piece, is_json } in pieces {
        let text = match piece {
            Piece::Text(text) | Piece::Raw(text) => text.clone(),
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
            Some(ProgramPart::Text(before)) => before.push_str(&text),
            _ => parts.push(ProgramPart::Text(text)),
        }
    }
    Ok(parts)
}

/// The value to place where code stands: JSON that a template wrote is the value that it describes.
pub(crate) fn code_value(value: &Value, is_json: bool) -> Value {
    let read = || serde_json::from_str(value.as_str()?).ok();
    let parsed: Option<Value> = is_json.then(read).flatten();
    parsed.unwrap_or_else(|| value.clone())
}

/// The text of a value inside a text or a comment: its own, or its JSON.
pub(crate) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The name in a value, if it is one and no keyword of the language.
pub(crate) fn name<'v>(value: &'v Value, keywords: &[&str]) -> Option<&'v str> {
    let text = value.as_str()?;
    let is_word = text.chars().all(is_word_character);
    let begins_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (is_word && begins_well && !keywords.contains(&text)).then_some(text)
}

/// Whether a character can be a part of a name or a number.
pub(crate) fn is_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The error of a value that cannot be placed where it stands.
pub(crate) fn cannot_place(code: &'static str, key: &str, message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, code, message).with("key", key)
}
