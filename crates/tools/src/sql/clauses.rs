//! Determines where a statement allows only the name of a table, a column or another object.
//!
//! Input: the words and signs of a statement, in order. Output: whether the next token can only be a name. Positions
//! that also allow a value do not count: `EXTRACT(year FROM …)`, `IS DISTINCT FROM …`, `COPY t FROM …`.

use crate::sql::duckdb::sql_argument;

/// Words that begin or continue a query, so that tables follow its `FROM`.
const QUERY_WORDS: [&str; 8] = [
    "SELECT",
    "DELETE",
    "UPDATE",
    "INSERT",
    "MERGE",
    "PERFORM",
    "SHOW",
    "RETURNING",
];
/// Words that end a list of tables, or of columns to set.
const LIST_ENDS: [&str; 18] = [
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "WINDOW",
    "FETCH",
    "FOR",
    "RETURNING",
    "SELECT",
    "VALUES",
    "QUALIFY",
    "THEN",
    "LOOP",
];
/// Kinds of objects that statements create, change and drop.
const OBJECT_WORDS: [&str; 17] = [
    "SCHEMA",
    "VIEW",
    "INDEX",
    "SEQUENCE",
    "DATABASE",
    "COLUMN",
    "CONSTRAINT",
    "FUNCTION",
    "PROCEDURE",
    "TRIGGER",
    "DOMAIN",
    "ROLE",
    "USER",
    "EXTENSION",
    "POLICY",
    "MACRO",
    "CONCURRENTLY",
];
/// Statements about objects.
const OBJECT_STATEMENTS: [&str; 9] = [
    "CREATE", "DROP", "ALTER", "COMMENT", "GRANT", "REVOKE", "REFRESH", "REINDEX", "LOCK",
];

/// Clauses of a statement, by nesting level.
#[derive(Debug, Clone)]
pub(crate) struct StatementClauses {
    /// First word of the statement.
    first: String,
    has_renamed: bool,
    levels: Vec<ClauseLevel>,
}

/// State inside one pair of parentheses.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a fact of its own about the words so far"
)]
struct ClauseLevel {
    /// Whether the level contains a query.
    is_query: bool,
    /// Verb of that query.
    verb: String,
    /// Whether another name follows a comma.
    has_name_list: bool,
    /// Whether this is the column list of an `INSERT`.
    is_columns: bool,
    /// Whether the next parentheses would be the column list of an `INSERT`.
    may_have_columns: bool,
    /// Function of these arguments, in upper case.
    function: String,
    /// Number of commas so far.
    commas: usize,
    /// The word before the last one, which decides what the last one means.
    before: String,
    last: LastToken,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum LastToken {
    #[default]
    Start,
    Word(String),
    Comma,
    Other,
}

impl StatementClauses {
    pub(crate) fn new() -> Self {
        Self {
            first: String::new(),
            has_renamed: false,
            levels: vec![ClauseLevel::default()],
        }
    }

    /// Reads a word in upper case.
    pub(crate) fn add_word(&mut self, word: &str) {
        if self.first.is_empty() {
            word.clone_into(&mut self.first);
        }
        self.has_renamed |= word == "RENAME";
        let first = self.first.clone();
        let is_first_level = self.levels.len() == 1;
        let level = self.current_level();
        let previous = match &level.last {
            LastToken::Word(previous) => previous.clone(),
            _ => String::new(),
        };
        let is_first = level.last == LastToken::Start;
        // In a grant, or in the events of a trigger, these words do not begin a query.
        let is_named = matches!(previous.as_str(), "FOR" | "ON" | "BEFORE" | "AFTER" | "OR")
            || matches!(first.as_str(), "GRANT" | "REVOKE");
        if QUERY_WORDS.contains(&word) && !is_named {
            level.is_query = true;
            word.clone_into(&mut level.verb);
        }
        if word == "FROM" && is_first && is_first_level {
            level.is_query = true;
        }
        level.has_name_list = match word {
            "FROM" => level.is_query && previous != "DISTINCT",
            "SET" => level.verb == "UPDATE",
            "TABLE" | "VIEW" | "SEQUENCE" | "SCHEMA" if is_first_level => {
                matches!(first.as_str(), "DROP" | "TRUNCATE")
            }
            "TRUNCATE" => true,
            word if LIST_ENDS.contains(&word) => false,
            _ => level.has_name_list,
        };
        level.may_have_columns = match word {
            "INTO" => level.verb == "INSERT" || first == "REPLACE",
            word => level.may_have_columns && !LIST_ENDS.contains(&word),
        };
        level.before = previous;
        level.last = LastToken::Word(word.to_owned());
    }

    /// Reads a sign.
    pub(crate) fn add_sign(&mut self, sign: char) {
        match sign {
            '(' => {
                let level = self.current_level();
                let is_columns = std::mem::take(&mut level.may_have_columns);
                let function = match std::mem::replace(&mut level.last, LastToken::Other) {
                    LastToken::Word(word) => word,
                    _ => String::new(),
                };
                self.levels.push(ClauseLevel {
                    is_columns,
                    has_name_list: is_columns,
                    function,
                    ..ClauseLevel::default()
                });
            }
            // A list or map of values.
            '[' | '{' => self.levels.push(ClauseLevel::default()),
            ')' | ']' | '}' if self.levels.len() > 1 => {
                self.levels.pop();
                self.add_other();
            }
            ',' => {
                let level = self.current_level();
                level.commas += 1;
                level.last = LastToken::Comma;
            }
            _ => self.add_other(),
        }
    }

    /// Reads a value, an inserted name, or quoted text.
    pub(crate) fn add_other(&mut self) {
        let level = self.current_level();
        if let LastToken::Word(word) = &level.last {
            level.before.clone_from(word);
        }
        level.last = LastToken::Other;
    }

    /// Whether the next token can only be a name.
    pub(crate) fn needs_name(&self) -> bool {
        let level = self.levels.last().expect("the statement itself is a level");
        match &level.last {
            LastToken::Start => level.is_columns,
            LastToken::Comma => level.has_name_list,
            LastToken::Word(word) => self.is_followed_by_name(level, word),
            LastToken::Other => false,
        }
    }

    /// Whether the next token is part of text that a `DuckDB` function runs as SQL.
    pub(crate) fn is_in_sql_text(&self) -> bool {
        let is_sql = |level: &ClauseLevel| sql_argument(&level.function) == Some(level.commas);
        self.levels.iter().any(is_sql)
    }

    fn is_followed_by_name(&self, level: &ClauseLevel, word: &str) -> bool {
        let is_first_level = self.levels.len() == 1;
        let is_about_objects = OBJECT_STATEMENTS.contains(&self.first.as_str());
        match word {
            "TABLE" | "JOIN" | "UPDATE" | "ONLY" | "REFERENCES" | "TRUNCATE" => true,
            // `VACUUM INTO` expects a file name.
            "INTO" => self.first != "VACUUM",
            "FROM" if self.first == "REVOKE" => true,
            "FROM" => {
                let is_copy = self.first == "COPY" && is_first_level;
                level.is_query && level.before != "DISTINCT" && !is_copy
            }
            "EXISTS" => is_about_objects && matches!(level.before.as_str(), "IF" | "NOT"),
            "AS" => level.is_query,
            "SET" => level.verb == "UPDATE",
            "USING" => matches!(level.verb.as_str(), "DELETE" | "MERGE"),
            "ON" => is_about_objects && !level.is_query && is_first_level,
            "TO" if self.first == "GRANT" => true,
            "TO" => self.first == "ALTER" && (self.has_renamed || level.before == "OWNER"),
            // After a column name, `TYPE` is followed by a type, which is not quoted.
            "TYPE" => matches!(level.before.as_str(), "CREATE" | "DROP" | "ALTER"),
            word if OBJECT_WORDS.contains(&word) => is_about_objects && is_first_level,
            _ => false,
        }
    }

    fn current_level(&mut self) -> &mut ClauseLevel {
        self.levels.last_mut().expect("the statement itself is a level")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a name is expected at the end of words and signs separated by spaces.
    fn expects_name(text: &str) -> bool {
        let mut clauses = StatementClauses::new();
        for token in text.split_whitespace() {
            match token {
                "?" => clauses.add_other(),
                word if word.chars().all(char::is_alphanumeric) => {
                    clauses.add_word(&word.to_ascii_uppercase());
                }
                signs => signs.chars().for_each(|sign| clauses.add_sign(sign)),
            }
        }
        clauses.needs_name()
    }

    #[test]
    fn names_are_expected_where_nothing_else_is_allowed() {
        for text in [
            "select a from",
            "select a from b ,",
            "select a from b join",
            "select ( select a from",
            "select extract ( year from d ) from",
            "delete from",
            "delete from a using",
            "insert into",
            "insert into ? (",
            "insert into ? ( a ,",
            "update",
            "update a set",
            "update a set b = f ( 1 , 2 ) ,",
            "merge into a using",
            "create table",
            "create table if not exists",
            "drop table if exists",
            "drop table a ,",
            "truncate table a ,",
            "alter table a add column",
            "alter table a rename to",
            "create index a on",
            "create trigger a after insert or update on",
            "grant select , update on",
            "grant select on a to",
            "insert into a . b (",
            "create index concurrently",
            "create schema if not exists",
            "truncate",
            "comment on table",
            "select 1 as",
            "create table a ( b int references",
            "from",
        ] {
            assert!(expects_name(text), "{text}");
        }
    }

    #[test]
    fn values_stay_values() {
        for text in [
            "select",
            "select a ,",
            "select a from b where c =",
            "select a from b where c in ( 1 ,",
            "select a from f ( 1 ,",
            "select extract ( year from",
            "select trim ( from",
            "select substring ( a from",
            "select a is distinct from",
            "select cast ( a as",
            "select a from b order by 1 ,",
            "select a from b limit",
            "copy a from",
            "vacuum into",
            "insert into a values (",
            "insert into a select f (",
            "insert into a ( b ) values ( 1 ,",
            "alter database a set b to",
            "select a from b join c on",
            "update a set b =",
            "update a set b = array [ 1 ,",
            "update a set b = { c : 1 ,",
            "comment on table a is",
            "create table a as",
            "select a where exists (",
        ] {
            assert!(!expects_name(text), "{text}");
        }
    }
}
