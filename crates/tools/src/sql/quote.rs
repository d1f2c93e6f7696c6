//! Values as text of a statement: literals, quoted names, and the tags of dollar quotes.

use serde_json::Value;

use crate::sql::error::BindError;
use crate::sql::sql_context::{SqlContext, SqlDialect};

/// How a negative number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignStyle {
    /// In parentheses, so that a cast or an operator behind it takes the whole number.
    Parentheses,
    /// As it is, for statements that take numbers and no expressions.
    Bare,
}

/// A value as a literal. A text means the same whatever the session says about backslashes.
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

/// Whether a value among tokens is written as a literal of its type, and not bound.
pub(crate) fn is_typed_literal(value: &Value, dialect: SqlDialect) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        // Sqlite reads an integer beyond 63 bits as a real number, which loses digits.
        Value::Number(number) => dialect != SqlDialect::Sqlite || !number.is_u64() || number.is_i64(),
        Value::String(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

/// A name, a dotted one, or a list of them, in quotes; and the names as they were given.
pub(crate) fn quoted_names(value: &Value) -> Result<QuotedNames, BindError> {
    let names = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut quoted = Vec::new();
    let mut given = Vec::new();
    for name in names {
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
        given.push(name);
    }
    if quoted.is_empty() {
        return Err(BindError::Ident(value.to_string()));
    }
    Ok(QuotedNames {
        text: quoted.join(", "),
        given,
    })
}

/// Names as a statement takes them.
#[derive(Debug)]
pub(crate) struct QuotedNames {
    pub(crate) text: String,
    pub(crate) given: Vec<String>,
}

/// A tag for dollar quotes around a text: the one it has, or another if the text would end at that too early.
pub(crate) fn choose_tag(tag: &str, content: &str) -> String {
    let ends_at_its_end = |tag: &str| {
        // `DuckDB` looks for blanks outside of quotes, and begins its search for their end with the last dollar of the tag.
        let whole = format!("{tag}{content}{tag}");
        whole[1..].find(tag) == Some(tag.len() - 1 + content.len())
    };
    if ends_at_its_end(tag) {
        return tag.to_owned();
    }
    let numbered = (1_u32..).map(|number| format!("$q{number}$"));
    let mut fitting = numbered.filter(|tag| ends_at_its_end(tag));
    fitting.next().expect("a text holds finitely many tags")
}

/// A text for the quotes or the comment it stands in.
pub(crate) fn escape_text(place: &SqlContext, text: String) -> Result<String, BindError> {
    Ok(match place {
        SqlContext::Code => unreachable!("values among tokens are placed elsewhere"),
        SqlContext::Text { has_escapes: true } => text.replace('\\', "\\\\").replace('\'', "''"),
        SqlContext::Text { .. } if is_escaped(&text) => text,
        SqlContext::Text { .. } => text.replace('\'', "''"),
        SqlContext::Escape => {
            return Err(BindError::Place(
                "right after a backslash in `E'…'`; write a backslash of the text as `\\\\`",
            ));
        }
        SqlContext::Unicode(_) => {
            return Err(BindError::Place("inside `U&` quotes; use plain quotes"));
        }
        SqlContext::Ident(']') if text.contains(']') => return Err(BindError::Ident(text)),
        SqlContext::Ident(']') | SqlContext::DollarQuoted(_) => text,
        SqlContext::Ident(end) => text.replace(*end, &end.to_string().repeat(2)),
        SqlContext::LineComment | SqlContext::BlockComment(_) => text.replace(['\n', '\r', '*', '/'], " "),
    })
}

/// Whether every quote in a text is doubled, so that it can stand in a literal and not end it.
fn is_escaped(text: &str) -> bool {
    text.contains('\'') && text.split(|c| c != '\'').all(|quotes| quotes.len().is_multiple_of(2))
}

/// A value as text, to stand between quotes of some kind.
pub(crate) fn value_text(value: &Value) -> Result<String, BindError> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if text.contains('\0') {
        return Err(BindError::Nul);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_kept_while_it_fits() {
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
