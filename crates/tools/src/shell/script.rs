//! Builds a script from playbook text and values. Each value is exactly one word, or one part of a word, in every
//! context.
//!
//! A value becomes a variable that is set before the playbook's text and expanded in double quotes, so the shell never
//! parses it. Plain words and numbers are inserted as they are, which also works where a variable is not possible;
//! except in here-documents, where a plain word can be the delimiter.

use language::template::Piece;
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::shell::quoting::{QuoteContext, ScriptScanner};
use crate::value_text::text_or_empty;

/// Reserved words of the shell.
const RESERVED_WORDS: [&str; 17] = [
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for", "in", "function",
    "select", "time", "coproc",
];

/// Script to run.
#[derive(Debug)]
pub(crate) struct ShellScript {
    pub(crate) text: String,
    /// Whether it contains values, which may be secrets.
    pub(crate) has_values: bool,
}

/// Builds the script of one or more commands. They run in one shell, which stops at the first failure.
pub(crate) fn build_script(commands: &[Vec<Piece>]) -> Result<ShellScript, TaskError> {
    let mut variables = String::new();
    let mut count = 0;
    let mut bodies = Vec::new();
    for pieces in commands {
        bodies.push(build_command(pieces, &mut variables, &mut count)?);
    }
    let body = bodies.join("\n");
    if commands.len() > 1 {
        variables.push_str("set -e\n");
    }
    let mut pieces = commands.iter().flatten();
    Ok(ShellScript {
        text: variables + body.as_str(),
        has_values: pieces.any(|piece| !matches!(piece, Piece::Text(_))),
    })
}

fn build_command(pieces: &[Piece], variables: &mut String, count: &mut usize) -> Result<String, TaskError> {
    let mut reader = ScriptScanner::default();
    let mut body = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) | Piece::Raw(text) => {
                reader.read_text(text);
                body.push_str(text);
            }
            Piece::Value(value) | Piece::Ident(value) => {
                let text = value_text(value)?;
                body.push_str(&place_value(&text, &reader, |text| {
                    *count += 1;
                    let name = format!("_noetl_{count}");
                    variables.push_str(&format!("{name}={}\n", quote_text(text)));
                    name
                })?);
                match reader.context() {
                    QuoteContext::Comment => {}
                    QuoteContext::RawHeredoc => reader.read_raw_value(&text),
                    _ => reader.skip_value(),
                }
            }
        }
    }
    if reader.is_ended_by_value() {
        return Err(refused_error("a value would end the here-document that contains it"));
    }
    Ok(body)
}

/// Script text for a value in the reader's current context.
fn place_value(
    text: &str,
    reader: &ScriptScanner,
    mut variable: impl FnMut(&str) -> String,
) -> Result<String, TaskError> {
    let context = reader.context();
    if is_plain(text) && context != QuoteContext::Heredoc {
        return Ok(text.to_owned());
    }
    match context {
        QuoteContext::Bare => Ok(format!("\"${{{}}}\"", variable(text))),
        QuoteContext::Double | QuoteContext::Heredoc => Ok(format!("${{{}}}", variable(text))),
        QuoteContext::Single => Ok(format!("'\"${{{}}}\"'", variable(text))),
        QuoteContext::Ansi => Ok(format!("'\"${{{}}}\"$'", variable(text))),
        // The shell skips a comment, but a newline ends it, and so does a backtick if it is inside backticks.
        QuoteContext::Comment => Ok(text.replace(|c| !is_plain_character(c), " ")),
        QuoteContext::Arithmetic => Err(refused_error(
            "only a number is allowed inside `$(( … ))`, because the shell would execute other text",
        )),
        QuoteContext::RawHeredoc if reader.is_in_backticks() => Err(refused_error(
            "only a plain word is allowed in a quoted here-document inside backticks; use `$( … )`",
        )),
        QuoteContext::RawHeredoc => Ok(text.to_owned()),
    }
}

/// Whether the shell takes the text literally in every context.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain_character) && !RESERVED_WORDS.contains(&text)
}

fn is_plain_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:@%+,-".contains(c)
}

/// Text of a value: strings as they are, other types as JSON.
fn value_text(value: &Value) -> Result<String, TaskError> {
    let text = text_or_empty(value);
    if text.contains('\0') {
        return Err(refused_error(
            "a value contains a NUL character, which cannot be passed to a command",
        ));
    }
    Ok(text)
}

/// Text in single quotes.
fn quote_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn refused_error(message: &str) -> TaskError {
    TaskError::new(ErrorKind::Schema, "SHELL_VALUE", message)
}
