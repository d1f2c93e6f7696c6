//! Values as SQL text: literals, quoted names, and tags of dollar quotes.

use serde_json::Value;

use crate::sql::error::BindError;
use crate::sql::sql_context::{SqlContext, SqlDialect};
use crate::value_text::text_or_empty;

/// How to write a negative number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignStyle {
    /// In parentheses, so that a following cast or operator applies to the whole number.
    Parentheses,
    /// Without parentheses, for statements that accept numbers but no expressions.
    Bare,
}

/// A value as a literal. Its meaning does not depend on the session's setting for backslashes.
pub(crate) fn sql_literal(value: &Value, dialect: SqlDialect, sign: SignStyle) -> String {
    let text = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Bool(true) => return "TRUE".to_owned(),
        Value::Bool(false) => return "FALSE".to_owned(),
        Value::Number(number) => {
            let digits = number.to_string();
            return match sign {
                SignStyle::Parentheses if digits.starts_with('-') => format!("({digits})"),
                SignStyle::Parentheses | SignStyle::Bare => digits,
            };
        }
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => value.to_string(),
    };
    let quoted = text.replace('\'', "''");
    if dialect == SqlDialect::Postgres && quoted.contains('\\') {
        format!("E'{}'", quoted.replace('\\', "\\\\"))
    } else {
        format!("'{quoted}'")
    }
}

/// Whether a value between tokens becomes a literal of its type; otherwise it is bound as a parameter.
pub(crate) fn is_typed_literal(value: &Value, dialect: SqlDialect) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        // SQLite reads an integer beyond 63 bits as a real number, which loses digits.
        Value::Number(number) => dialect != SqlDialect::Sqlite || !number.is_u64() || number.is_i64(),
        Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Quotes a name, a dotted name, or a list of names.
pub(crate) fn quoted_names(value: &Value) -> Result<QuotedNames, BindError> {
    let values = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut quoted = Vec::new();
    let mut names = Vec::new();
    for name in values {
        let name = match name {
            Value::String(name) => name.clone(),
            Value::Number(number) if number.is_u64() => number.to_string(),
            other => return Err(BindError::Ident(other.to_string())),
        };
        if name.contains('\0') || name.split('.').any(str::is_empty) {
            return Err(BindError::Ident(name));
        }
        let parts = name.split('.');
        let parts: Vec<String> = parts.map(|part| format!("\"{}\"", part.replace('"', "\"\""))).collect();
        quoted.push(parts.join("."));
        names.push(name);
    }
    if quoted.is_empty() {
        return Err(BindError::Ident(value.to_string()));
    }
    Ok(QuotedNames {
        text: quoted.join(", "),
        names,
    })
}

/// Names in quotes, and as they were before quoting.
#[derive(Debug)]
pub(crate) struct QuotedNames {
    pub(crate) text: String,
    pub(crate) names: Vec<String>,
}

/// Tag for dollar quotes around a text: the same one, or another one if the text contains it.
pub(crate) fn choose_tag(tag: &str, content: &str) -> String {
    let closes_at_end = |tag: &str| {
        // While it searches for white space outside of quotes, `DuckDB` looks for the closing tag from the last `$` of
        // the opening one.
        let quoted = format!("{tag}{content}{tag}");
        quoted[1..].find(tag) == Some(tag.len() - 1 + content.len())
    };
    if closes_at_end(tag) {
        return tag.to_owned();
    }
    let numbered = (1_u32..).map(|number| format!("$q{number}$"));
    let mut candidates = numbered.filter(|tag| closes_at_end(tag));
    candidates.next().expect("a text contains finitely many tags")
}

/// Escapes a text for its context.
pub(crate) fn escape_text(context: &SqlContext, text: String) -> Result<String, BindError> {
    Ok(match context {
        SqlContext::Code => unreachable!("values between tokens are not escaped"),
        SqlContext::Text { has_escapes: true } => text.replace('\\', "\\\\").replace('\'', "''"),
        SqlContext::Text { .. } if is_escaped(&text) => text,
        SqlContext::Text { .. } => text.replace('\'', "''"),
        SqlContext::Escape => {
            return Err(BindError::NotAllowed(
                "directly after a backslash in `E'…'`; write a literal backslash as `\\\\`",
            ));
        }
        SqlContext::Unicode(_) => {
            return Err(BindError::NotAllowed("inside `U&` quotes; use plain quotes"));
        }
        SqlContext::Ident(']') if text.contains(']') => return Err(BindError::Ident(text)),
        SqlContext::Ident(']') | SqlContext::DollarQuoted(_) => text,
        SqlContext::Ident(end) => text.replace(*end, &end.to_string().repeat(2)),
        SqlContext::LineComment | SqlContext::BlockComment(_) => text.replace(['\n', '\r', '*', '/'], " "),
    })
}

/// Whether every quote in a text is doubled already, so that it cannot end a literal.
fn is_escaped(text: &str) -> bool {
    text.contains('\'') && text.split(|c| c != '\'').all(|quotes| quotes.len().is_multiple_of(2))
}

/// Text of a value for use inside quotes.
pub(crate) fn value_text(value: &Value) -> Result<String, BindError> {
    let text = text_or_empty(value);
    if text.contains('\0') {
        return Err(BindError::Nul);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_replaced_only_if_the_text_contains_it() {
        assert_eq!(choose_tag("$$", "costs 5"), "$$");
        assert_eq!(choose_tag("$$", "costs $5"), "$$");
        assert_eq!(choose_tag("$$", "costs $$5"), "$q1$");
        assert_eq!(choose_tag("$$", "costs $"), "$q1$");
        assert_eq!(choose_tag("$$", "$5"), "$q1$");
        assert_eq!(choose_tag("$t$", "t$"), "$q1$");
        assert_eq!(choose_tag("$a$", "$a$ $q1$"), "$q2$");
        assert_eq!(choose_tag("$a$", "$a"), "$q1$");
        assert_eq!(choose_tag("$q1$", "$q1$ $q"), "$q2$");
    }
}
