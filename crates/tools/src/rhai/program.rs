//! Builds a Rhai script from playbook text and values: every value is one literal, or a part of one, and is never
//! executed.
//!
//! In double quotes a value is escaped. In back-ticks, which have no escapes, it is an interpolated string literal. In
//! code it is a literal: `()`, `true`, a number, a string, an array or an object map.

use std::fmt::Write as _;

use language::template::CodePiece;
use model::outcome::TaskError;
use serde_json::Value;

use crate::rhai::context::{RhaiContext, RhaiReader};
use crate::value_placement::{
    ProgramPart, VALUE_IN_NAME, code_value, identifier, is_word_character, join_entries, join_items, placement_error,
    program_parts,
};
use crate::value_text::plain_text;

/// Keywords, which cannot be names.
const KEYWORDS: &[&str] = &[
    "true",
    "false",
    "let",
    "const",
    "if",
    "else",
    "switch",
    "do",
    "while",
    "until",
    "loop",
    "for",
    "in",
    "continue",
    "break",
    "return",
    "throw",
    "try",
    "catch",
    "import",
    "export",
    "as",
    "global",
    "fn",
    "private",
    "this",
    "is_def_var",
    "is_def_fn",
    "eval",
    "Fn",
    "call",
    "curry",
    "type_of",
    "print",
    "debug",
];

/// Builds the script of some pieces.
pub fn rhai_script(pieces: &[CodePiece]) -> Result<String, TaskError> {
    let message = "`| ident` requires a valid Rhai name: letters, digits and `_`, not a keyword";
    let parts = program_parts(pieces, |value| {
        identifier(value, KEYWORDS).ok_or_else(|| refused_error(message))
    })?;
    let mut reader = RhaiReader::default();
    let mut script = String::new();
    let mut is_after_value = false;
    for part in &parts {
        match part {
            ProgramPart::Text(text) => {
                let continues = |c: char| is_word_character(c) || matches!(c, '"' | '#');
                if is_after_value && reader.context() == RhaiContext::Code && text.starts_with(continues) {
                    script.push(' ');
                }
                reader.read_text(text);
                script.push_str(text);
                is_after_value = false;
            }
            ProgramPart::Value { value, is_json } => {
                place_value(value, *is_json, &reader, &mut script)?;
                reader.skip_value();
                is_after_value = true;
            }
        }
    }
    Ok(script)
}

fn place_value(value: &Value, is_json: bool, reader: &RhaiReader, script: &mut String) -> Result<(), TaskError> {
    match reader.context() {
        RhaiContext::Code => return place_in_code(&code_value(value, is_json), reader, script),
        RhaiContext::String => {
            // A backslash before a value is literal, because the value has no character for it to escape.
            if reader.is_escaped() {
                script.push('\\');
            }
            script.push_str(&escape_text(&plain_text(value)));
        }
        RhaiContext::Interpolated => {
            // A backslash before an interpolation would make it literal text.
            let text = script.trim_end_matches('\\').len();
            let backslashes = script.split_off(text);
            let _ = write!(
                script,
                "${{{}}}",
                quote_text(&(backslashes + plain_text(value).as_str()))
            );
        }
        RhaiContext::Raw => {
            let text = plain_text(value);
            if text.contains(|c: char| matches!(c, '"' | '#') || c.is_control()) {
                return Err(refused_error(
                    "a raw string cannot contain this value; use double quotes, or pass the value under `input`",
                ));
            }
            script.push_str(&text);
        }
        RhaiContext::Character => {
            return Err(refused_error(
                "a value is not allowed in single quotes; use double quotes, or pass it under `input`",
            ));
        }
        RhaiContext::LineComment | RhaiContext::BlockComment => {
            let text = plain_text(value);
            let text = text.replace(|c: char| c.is_control() || matches!(c, '*' | '/'), " ");
            let _ = write!(script, " {text} ");
        }
    }
    Ok(())
}

fn place_in_code(value: &Value, reader: &RhaiReader, script: &mut String) -> Result<(), TaskError> {
    if reader.is_in_word() {
        return Err(refused_error(VALUE_IN_NAME));
    }
    // Two adjacent quotes are an escaped quote, and a hash before a quote opens a raw string.
    if script.ends_with(['"', '#']) {
        script.push(' ');
    }
    script.push_str(&rhai_literal(value));
    Ok(())
}

/// A value as a Rhai literal.
fn rhai_literal(value: &Value) -> String {
    match value {
        Value::Null => "()".to_owned(),
        Value::Bool(_) => value.to_string(),
        // The sign would be a separate operator, and the smallest integer has no positive counterpart.
        Value::Number(number) if number.as_i64() == Some(i64::MIN) => {
            format!("({} - 1)", i64::MIN + 1)
        }
        Value::Number(number) if number.to_string().starts_with('-') => format!("({number})"),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote_text(text),
        Value::Array(items) => format!("[{}]", join_items(items, rhai_literal)),
        Value::Object(map) => format!("#{{{}}}", join_entries(map, quote_text, rhai_literal)),
    }
}

fn quote_text(text: &str) -> String {
    format!("\"{}\"", escape_text(text))
}

/// Escapes text for double quotes. Leading white space is escaped, because a line continuation would skip it.
fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let leading = text.len() - text.trim_start().len();
    for (at, c) in text.char_indices() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || c.is_whitespace() && (at < leading || !c.is_ascii()) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn refused_error(message: &str) -> TaskError {
    placement_error("RHAI_VALUE", "code", message)
}
