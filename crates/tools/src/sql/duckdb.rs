//! What `DuckDB` reads in its own way: comments, blanks beyond ASCII, and functions whose text is SQL.
//!
//! Before `DuckDB` parses a statement, it turns blanks beyond ASCII into ASCII ones, except in quotes. Its search for
//! quotes knows neither `/* … */` nor `\'`, and can miss the end of dollar quotes. So statements are written without such
//! blanks among tokens, without quotes in comments, and with `''` for `\'`. Otherwise a blank in a value would change.

use crate::sql::sql_context::SqlContext;

/// The characters beyond ASCII that are blanks to `DuckDB`.
pub(super) fn is_wide_blank(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{205f}' | '\u{2060}' | '\u{3000}' | '\u{feff}'
    )
}

/// Adds a character that is read at a place.
pub(super) fn push_char(text: &mut String, place: &SqlContext, c: char) {
    match (place, c) {
        (SqlContext::Code, c) if is_wide_blank(c) => text.push(' '),
        (SqlContext::BlockComment(_), '\'' | '"' | '$' | '-') => text.push(' '),
        (SqlContext::Escape, '\'') if text.ends_with('\\') => {
            text.pop();
            text.push_str("''");
        }
        _ => text.push(c),
    }
}

/// The number of the argument, from 0, in which a function takes a text that is run as SQL.
pub(super) fn sql_argument(function: &str) -> Option<usize> {
    match function {
        "QUERY" => Some(0),
        "POSTGRES_QUERY" | "POSTGRES_EXECUTE" | "MYSQL_QUERY" | "MYSQL_EXECUTE" | "SQLITE_QUERY" => Some(1),
        _ => None,
    }
}
