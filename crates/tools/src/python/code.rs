//! Builds Python code from playbook text and values. Each value is one literal, or a part of one, and is never
//! executed.
//!
//! In a string literal, a value is escaped for that literal. A raw literal has no escapes, so it is split, with the
//! value in a literal of its own in between; Python joins the parts when it compiles. Elsewhere a value is a literal:
//! `None`, `True`, a number, a string, a list or a dictionary. No value adds a line break, so tracebacks show the
//! playbook's lines.

use std::fmt::Write as _;

use language::template::{CodePiece, Piece};
use model::outcome::TaskError;
use serde_json::Value;

use crate::python::context::{PythonContext, PythonReader, StringLiteral};
use crate::value_placement::{
    VALUE_IN_NAME, code_value, identifier, is_word_character, join_entries, join_items, placement_error,
};

/// Keywords, which cannot be names.
const KEYWORDS: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Builds the code of some pieces.
pub fn python_code(pieces: &[CodePiece]) -> Result<String, TaskError> {
    let mut reader = PythonReader::default();
    let mut code = String::new();
    for (index, CodePiece { piece, is_json }) in pieces.iter().enumerate() {
        match piece {
            Piece::Text(text) | Piece::Raw(text) => {
                reader.read_author_text(text);
                code.push_str(text);
            }
            Piece::Value(value) => {
                let is_literal = matches!(reader.context(), PythonContext::Code | PythonContext::Field { .. });
                place_value(&code_value(value, *is_json && is_literal), &mut reader, &mut code)?;
                // A quote directly after an empty string would begin a triple-quoted literal.
                let mut next = pieces[index + 1..].iter().filter_map(piece_text);
                let is_quoted = next.next().is_some_and(|text| text.starts_with(['\'', '"']));
                if reader.context() == PythonContext::Code && code.ends_with('\'') && is_quoted {
                    code.push(' ');
                }
            }
            Piece::Ident(value) => {
                let name = identifier(value, KEYWORDS).filter(|_| reader.context() == PythonContext::Code);
                let name = name.ok_or_else(|| {
                    refused_error("`| ident` requires a valid Python name, outside of quotes and comments")
                })?;
                reader.read_author_text(name);
                code.push_str(name);
            }
        }
    }
    Ok(code)
}

fn piece_text(piece: &CodePiece) -> Option<&str> {
    match &piece.piece {
        Piece::Text(text) | Piece::Raw(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
        Piece::Value(_) | Piece::Ident(_) => None,
    }
}

fn place_value(value: &Value, reader: &mut PythonReader, code: &mut String) -> Result<(), TaskError> {
    match reader.context() {
        PythonContext::Code => return place_in_code(value, reader, code),
        PythonContext::Field { is_text } => code.push_str(&field_text(value, is_text)?),
        PythonContext::Comment => {
            let text = literal_text(value);
            code.push_str(&text.replace(|c: char| c.is_control(), " "));
        }
        PythonContext::Text(literal) if literal.is_raw => {
            let tail = code.split_off(code.len() - reader.tail());
            place_in_raw_text(&(tail + literal_text(value).as_str()), literal, code);
        }
        PythonContext::Text(literal) => {
            // A quote directly before an empty value would join with the closing quotes of the literal.
            let tail = code.split_off(code.len() - reader.tail());
            code.push_str(&with_escaped_quotes(&tail, literal));
            // A backslash before a value is literal, because the value has no character for it to escape.
            if reader.is_escaped() {
                code.push('\\');
            }
            code.push_str(&escape_text(&literal_text(value), literal));
        }
    }
    reader.skip_value(false);
    Ok(())
}

/// Tail of the playbook's text in a literal, with every quote escaped.
fn with_escaped_quotes(tail: &str, literal: StringLiteral) -> String {
    let mut out = String::with_capacity(tail.len());
    let mut is_escaped = false;
    for c in tail.chars() {
        if c == literal.quote && !is_escaped {
            out.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        out.push(c);
    }
    out
}

fn place_in_code(value: &Value, reader: &mut PythonReader, code: &mut String) -> Result<(), TaskError> {
    let is_number = value.as_u64().is_some();
    if reader.is_in_word() && !is_number {
        return Err(refused_error(VALUE_IN_NAME));
    }
    let literal = python_literal(value);
    // Two adjacent quotes would be an empty string, three would open a triple-quoted one.
    if code.ends_with(['\'', '"']) && literal.starts_with('\'') {
        code.push(' ');
    }
    code.push_str(&literal);
    reader.skip_value(is_number);
    Ok(())
}

/// A value inside the braces of an f-string. It must have neither quotes nor braces, so that every Python version reads
/// it in the same way.
fn field_text(value: &Value, is_text: bool) -> Result<String, TaskError> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(python_literal(value)),
        Value::String(text) if is_text && text.chars().all(is_word_character) => Ok(text.clone()),
        _ => Err(refused_error(
            "only a number or a plain word in quotes is allowed inside the braces of an f-string; pass the value under `input`",
        )),
    }
}

/// Closes the raw literal before the text and reopens it after the text.
fn place_in_raw_text(text: &str, literal: StringLiteral, code: &mut String) {
    let quoted = StringLiteral {
        quote: '"',
        is_triple: false,
        is_raw: false,
        ..literal
    };
    let _ = write!(
        code,
        "{} {}{}{} {}",
        literal.closing_quote(),
        quoted.opening_quote(),
        escape_text(text, quoted),
        quoted.closing_quote(),
        literal.opening_quote()
    );
}

/// Text of a value inside a literal: strings as they are, scalars as Python prints them, lists and dictionaries as
/// JSON.
fn literal_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) => python_literal(value),
        Value::Array(_) | Value::Object(_) => spaced_json(value),
    }
}

/// JSON with a space after commas and colons, as Python prints it.
fn spaced_json(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", join_items(items, spaced_json)),
        Value::Object(map) => {
            let json_key = |key: &str| Value::from(key).to_string();
            format!("{{{}}}", join_entries(map, json_key, spaced_json))
        }
        scalar => scalar.to_string(),
    }
}

/// A value as a Python literal.
fn python_literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        // A minus sign binds weaker than `**`.
        Value::Number(number) if number.to_string().starts_with('-') => format!("({number})"),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote_text(text),
        Value::Array(items) => format!("[{}]", join_items(items, python_literal)),
        Value::Object(map) => format!("{{{}}}", join_entries(map, quote_text, python_literal)),
    }
}

fn quote_text(text: &str) -> String {
    let plain = StringLiteral {
        quote: '\'',
        is_triple: false,
        is_raw: false,
        is_bytes: false,
        has_fields: false,
        is_template: false,
    };
    format!("'{}'", escape_text(text, plain))
}

/// Escapes text for a literal that is not raw.
fn escape_text(text: &str, literal: StringLiteral) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == literal.quote => {
                out.push('\\');
                out.push(c);
            }
            '{' | '}' if literal.has_fields => {
                out.push(c);
                out.push(c);
            }
            c if literal.is_bytes && !c.is_ascii() => {
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    let _ = write!(out, "\\x{byte:02x}");
                }
            }
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn refused_error(message: &str) -> TaskError {
    placement_error("PYTHON_VALUE", "code", message)
}
