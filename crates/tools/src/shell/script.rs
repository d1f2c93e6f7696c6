//! From author text and values to a script: each value is exactly one word, or one part of a word, wherever it stands.
//!
//! A value becomes a variable that is set before the author's text and expanded at its place inside double quotes, so
//! the shell never parses it. Plain words and numbers stand as they are, which keeps places working where a variable
//! cannot stand; not so in here-documents, where a plain word can be the delimiter.

use model::outcome::{ErrorKind, TaskError};
use model::template::Piece;
use serde_json::Value;

use crate::shell::place::{Place, Reader};

/// Words the shell reads as its own where a command may stand.
const RESERVED: [&str; 17] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "time", "coproc",
];

/// What the shell is given to run.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) text: String,
    /// Whether values stand in it, which may be secrets.
    pub(crate) has_values: bool,
}

/// The script of one or more commands, run in one shell that stops at the first that fails.
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
        return Err(refused("a value would end the here-document it stands in"));
    }
    Ok(body)
}

/// What stands in the script for a value at the reader's place.
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
        // Nothing of it is read; but a comment ends with its line, and backticks around it end at a backtick.
        Place::Comment => Ok(text.replace(|c| !is_plain_character(c), " ")),
        Place::Arithmetic => Err(refused(
            "only a number can stand inside `$(( … ))`, because the shell would run other text",
        )),
        Place::RawHeredoc if reader.is_in_backticks() => Err(refused(
            "only a plain word can stand in a quoted here-document inside backticks: write `$( … )`",
        )),
        Place::RawHeredoc => Ok(text.to_owned()),
    }
}

/// Whether a text means itself in every place.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain_character) && !RESERVED.contains(&text)
}

fn is_plain_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c)
}

/// The text of a value: its own, or JSON.
fn text_of(value: &Value) -> Result<String, TaskError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if text.contains('\0') {
        return Err(refused(
            "a value holds a NUL character, which no command can take",
        ));
    }
    Ok(text)
}

/// A text in single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn refused(message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, "SHELL_VALUE", message)
}
