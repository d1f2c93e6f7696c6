//! Builds a jq program from playbook text and values: every value is one literal, or a part of one, and is never
//! executed.
//!
//! In a string a value is escaped. In code, text becomes a string, any other scalar is put in parentheses, and a list
//! or map becomes a string with its JSON, which `fromjson` parses: the program has the same form for every value.

use language::template::CodePiece;
use model::outcome::TaskError;
use serde_json::Value;

use crate::transform::context::{JqContext, JqReader};
use crate::value_placement::{ProgramPart, VALUE_IN_NAME, code_value, identifier, placement_error, program_parts};
use crate::value_text::plain_text;

/// Keywords, which cannot be names.
const KEYWORDS: &[&str] = &[
    "and", "as", "catch", "def", "elif", "else", "end", "foreach", "if", "import", "include", "label", "module", "or",
    "reduce", "then", "try",
];

/// Builds the program of some pieces.
pub fn jq_program(pieces: &[CodePiece]) -> Result<String, TaskError> {
    let message = "`| ident` requires a valid jq name: letters, digits and `_`, not a keyword";
    let parts = program_parts(pieces, |value| {
        identifier(value, KEYWORDS).ok_or_else(|| refused_error(message))
    })?;
    let mut reader = JqReader::default();
    let mut program = String::new();
    for part in &parts {
        match part {
            ProgramPart::Text(text) => {
                reader.read_text(text);
                program.push_str(text);
            }
            ProgramPart::Value { value, is_json } => {
                place_value(value, *is_json, &reader, &mut program)?;
                reader.skip_value();
            }
        }
    }
    Ok(program)
}

fn place_value(value: &Value, is_json: bool, reader: &JqReader, program: &mut String) -> Result<(), TaskError> {
    match reader.context() {
        JqContext::Code if reader.is_in_word() => {
            return Err(refused_error(VALUE_IN_NAME));
        }
        JqContext::Code => program.push_str(&jq_literal(&code_value(value, is_json))),
        JqContext::String => {
            // A backslash before a value is literal, because the value has no character for it to escape.
            if reader.is_escaped() {
                program.push('\\');
            }
            let quoted = Value::from(plain_text(value)).to_string();
            program.push_str(&quoted[1..quoted.len() - 1]);
        }
        JqContext::Comment => {
            let text = plain_text(value);
            // A backslash at the end of a line would continue the comment.
            program.push_str(&text.replace(|c: char| c.is_control() || c == '\\', " "));
            program.push(' ');
        }
    }
    Ok(())
}

/// A value as a jq term.
fn jq_literal(value: &Value) -> String {
    match value {
        Value::String(_) => value.to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("({value})"),
        Value::Array(_) | Value::Object(_) => {
            format!("({} | fromjson)", Value::from(value.to_string()))
        }
    }
}

fn refused_error(message: &str) -> TaskError {
    placement_error("JQ_VALUE", "jq", message)
}
