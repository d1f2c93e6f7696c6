//! Peculiarities of `DuckDB`: comments, non-ASCII white space, and functions that run text as SQL.
//!
//! Before `DuckDB` parses a statement, it replaces non-ASCII white space outside of quotes by spaces. Its search for
//! quotes ignores `/* … */` and `\'`, and can miss the end of dollar quotes. Statements are therefore sent without such
//! white space between tokens, without quotes in comments, and with `''` for `\'`; otherwise white space in a value
//! would change.

use crate::sql::sql_context::SqlContext;

/// Whether `DuckDB` treats this non-ASCII character as white space.
pub(super) fn is_wide_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{205f}' | '\u{2060}' | '\u{3000}' | '\u{feff}'
    )
}

/// Appends a character of playbook text that is in this context.
pub(super) fn push_char(text: &mut String, context: &SqlContext, c: char) {
    match (context, c) {
        (SqlContext::Code, c) if is_wide_space(c) => text.push(' '),
        (SqlContext::BlockComment(_), '\'' | '"' | '$' | '-') => text.push(' '),
        (SqlContext::Escape, '\'') if text.ends_with('\\') => {
            text.pop();
            text.push_str("''");
        }
        _ => text.push(c),
    }
}

/// Index of the argument that a function runs as SQL.
pub(super) fn sql_argument(function: &str) -> Option<usize> {
    match function {
        "QUERY" => Some(0),
        "POSTGRES_QUERY" | "POSTGRES_EXECUTE" | "MYSQL_QUERY" | "MYSQL_EXECUTE" | "SQLITE_QUERY" => Some(1),
        _ => None,
    }
}
