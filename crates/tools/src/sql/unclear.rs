//! Author text that databases, or versions of one, read in different ways: a value behind it might not be where it seems.

use crate::sql::sql_context::{SqlContext, SqlDialect, continues_name};

/// Why nobody knows how a command is read from a character among its tokens on, if that is so. `before` are the
/// tokens since the last quotes or comment, and `ended` the quoted text that has ended before them.
pub(super) fn find_unclear(
    c: char,
    before: &str,
    ended: Option<&SqlContext>,
    dialect: SqlDialect,
) -> Option<&'static str> {
    let is_duckdb = dialect == SqlDialect::Duckdb;
    let goes_on = matches!(ended, Some(SqlContext::Text { has_escapes: true }));
    match c {
        '`' if is_duckdb => Some("behind a backtick; write names in double quotes"),
        '\'' if is_duckdb && goes_on => Some("behind an `E'…'` that goes on in other quotes; write it in one"),
        // What looks for blanks beyond ASCII takes these for dollar quotes.
        '$' if is_duckdb && before.ends_with(|c| continues_name(c, dialect)) => {
            Some("behind a name or a number with a `$` in it; write names in double quotes")
        }
        '$' if dialect == SqlDialect::Postgres && ends_in_number_and_name(before, dialect) => {
            Some("behind a number that a name and a `$` follow; write a blank between them")
        }
        _ => None,
    }
}

/// Whether a text ends in something that is a number, or a number with a name behind it: `1a`, `1e5`, `$1a`.
fn ends_in_number_and_name(text: &str, dialect: SqlDialect) -> bool {
    let word = text.trim_end_matches(|c| continues_name(c, dialect));
    let word = text[word.len()..].trim_start_matches('$');
    word.starts_with(|c: char| c.is_ascii_digit()) && !word.chars().all(|c| c.is_ascii_digit())
}
