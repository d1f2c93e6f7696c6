//! Detects playbook text that databases, or versions of one, parse differently: the context of a value after it is
//! ambiguous.

use crate::sql::sql_context::{SqlContext, SqlDialect, continues_name};

/// Why the context is ambiguous from this character on; `None` if it is not. `before` is the text since the last quotes
/// or comment, and `ended` the literal that ended before it.
pub(super) fn find_ambiguity(
    c: char,
    before: &str,
    ended: Option<&SqlContext>,
    dialect: SqlDialect,
) -> Option<&'static str> {
    let is_duckdb = dialect == SqlDialect::Duckdb;
    let has_escapes = matches!(ended, Some(SqlContext::Text { has_escapes: true }));
    match c {
        '`' if is_duckdb => Some("after a backtick; quote names with double quotes"),
        '\'' if is_duckdb && has_escapes => {
            Some("after an `E'…'` literal that continues in further quotes; write it as one literal")
        }
        // DuckDB's search for non-ASCII white space treats these as dollar quotes.
        '$' if is_duckdb && before.ends_with(|c| continues_name(c, dialect)) => {
            Some("after a name or number that contains `$`; quote names with double quotes")
        }
        '$' if dialect == SqlDialect::Postgres && ends_in_number_and_name(before, dialect) => {
            Some("after a number that is followed by a name and `$`; write a space between them")
        }
        _ => None,
    }
}

/// Whether a text ends with a number that continues as a name: `1a`, `1e5`, `$1a`.
fn ends_in_number_and_name(text: &str, dialect: SqlDialect) -> bool {
    let word = text.trim_end_matches(|c| continues_name(c, dialect));
    let word = text[word.len()..].trim_start_matches('$');
    word.starts_with(|c: char| c.is_ascii_digit()) && !word.chars().all(|c| c.is_ascii_digit())
}
