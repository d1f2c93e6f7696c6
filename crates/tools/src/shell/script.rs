//! Builds a script from playbook text and values. Each value is exactly one word, or one part of a word, in every
//! context.
//!
//! A value becomes a variable that is set before the playbook's text and expanded in double quotes, so the shell never
//! parses it. Plain words and numbers are inserted as they are, which also works where a variable is not possible;
//! except in here-documents, where a plain word can be the delimiter.

use model::outcome::{ErrorKind, TaskError};
use model::template::Piece;
use serde_json::Value;

use crate::shell::place::{Place, Reader};

/// Reserved words of the shell.
const RESERVED: [&str; 17] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "time", "coproc",
];

/// Script to run.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    /// Whether it contains values, which may be secrets.
    pub(crate) has_values: bool,
}

/// Builds the script of one or more commands. They run in one shell, which stops at the first failure.
pub(crate) fn script(commands: &[Vec<Piece>]) -> Result<Script, TaskError> {
    let mut variables = String::new();
    let mut count = 0;
    let mut bodies = Vec::new();
    for pieces in commands {
        bodies.push(body(pieces, &mut variables, &mut count)?);
    }
    let body = bodies.join("\n");
    if commands.len() > 1 {
        variables.push_str("set -e\n");
    }
    let mut pieces = commands.iter().flatten();
    Ok(Script {
        text: variables + body.as_str(),
        has_values: pieces.any(|piece| !matches!(piece, Piece::Text(_))),
    })
}

fn body(pieces: &[Piece], variables: &mut String, count: &mut usize) -> Result<String, TaskError> {
    let mut reader = Reader::default();
    let mut body = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) | Piece::Raw(text) => {
                reader.text(text);
                body.push_str(text);
            }
            Piece::Value(value) | Piece::Ident(value) => {
                let text = text_of(value)?;
                body.push_str(&placed(&text, &reader, |text| {
                    *count += 1;
                    let name = format!("_noetl_{count}");
                    variables.push_str(&format!("{name}={}\n", quoted(text)));
                    name
                })?);
                match reader.place() {
                    Place::Comment => {}
                    Place::RawHeredoc => reader.raw_value(&text),
                    _ => reader.value(),
                }
            }
        }
    }
    if reader.is_ended_by_value() {
        return Err(refused(
            "a value would end the here-document that contains it",
        ));
    }
    Ok(body)
}

/// Script text for a value in the reader's current context.
fn placed(
    text: &str,
    reader: &Reader,
    mut variable: impl FnMut(&str) -> String,
) -> Result<String, TaskError> {
    let place = reader.place();
    if is_plain(text) && place != Place::Heredoc {
        return Ok(text.to_owned());
    }
    match place {
        Place::Bare => Ok(format!("\"${{{}}}\"", variable(text))),
        Place::Double | Place::Heredoc => Ok(format!("${{{}}}", variable(text))),
        Place::Single => Ok(format!("'\"${{{}}}\"'", variable(text))),
        Place::Ansi => Ok(format!("'\"${{{}}}\"$'", variable(text))),
        // The shell skips a comment, but a newline ends it, and so does a backtick if it is inside backticks.
        Place::Comment => Ok(text.replace(|c| !is_plain_character(c), " ")),
        Place::Arithmetic => Err(refused(
            "only a number is allowed inside `$(( … ))`, because the shell would execute other text",
        )),
        Place::RawHeredoc if reader.is_in_backticks() => Err(refused(
            "only a plain word is allowed in a quoted here-document inside backticks; use `$( … )`",
        )),
        Place::RawHeredoc => Ok(text.to_owned()),
    }
}

/// Whether the shell takes the text literally in every context.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain_character) && !RESERVED.contains(&text)
}

fn is_plain_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c)
}

/// Text of a value: strings as they are, other types as JSON.
fn text_of(value: &Value) -> Result<String, TaskError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if text.contains('\0') {
        return Err(refused(
            "a value contains a NUL character, which cannot be passed to a command",
        ));
    }
    Ok(text)
}

/// Text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn refused(message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, "SHELL_VALUE", message)
}
