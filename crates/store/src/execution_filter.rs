//! Filters of lists of executions, and the statement with which both databases apply them.
//!
//! Input: an [`ExecutionFilter`]. Output: a statement with its values, or whether a row matches.

use std::time::Duration;

use model::id::{ExecutionId, Name};
use model::status::RunStatus;
use model::time::Time;

use crate::columns::to_i64;
use crate::ids::first_id_at;
use crate::rows::ExecutionRow;

/// A search examines at most this many of the newest executions that the other filters select, because no index
/// supports it.
const SEARCHED_EXECUTIONS_MAX: usize = 50_000;

/// How far the ID of an execution and its start may differ. IDs are ordered by time, so a list of a time range reads only
/// the IDs of this range, extended by this duration.
const ID_TIME_TOLERANCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Filters of a list of executions.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionFilter {
    /// Only executions with one of these statuses; empty for all.
    pub statuses: Vec<RunStatus>,
    /// Only executions of one of these playbooks; empty for all.
    pub paths: Vec<Name>,
    /// Only executions started at or after this time.
    pub since: Option<Time>,
    /// Only executions started before this time.
    pub until: Option<Time>,
    /// Only children of this execution.
    pub parent: Option<ExecutionId>,
    /// Only executions older than this one, for the next page.
    pub before: Option<ExecutionId>,
    /// Conditions that no index supports.
    pub search: ExecutionSearch,
    /// Maximum number of results.
    pub limit: usize,
}

impl Default for ExecutionFilter {
    fn default() -> Self {
        Self {
            statuses: Vec::new(),
            paths: Vec::new(),
            since: None,
            until: None,
            parent: None,
            before: None,
            search: ExecutionSearch::default(),
            limit: 50,
        }
    }
}

/// Conditions that are checked for each of the newest executions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionSearch {
    /// The start of the ID, or a part of the path, name, current step or error, in upper or lower case.
    pub text: Option<String>,
    /// The code of the error.
    pub error_code: Option<String>,
    /// Only executions that took, or have been active for, at least this long.
    pub min_duration: Option<Duration>,
    /// Only executions that took, or have been active for, at most this long.
    pub max_duration: Option<Duration>,
}

/// The part of an execution that is counted by its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetRow {
    /// The status.
    pub status: RunStatus,
    /// The playbook's path.
    pub path: Name,
    /// When it was requested.
    pub started_at: Time,
    /// Why it failed: code and message.
    pub error: Option<String>,
}

impl ExecutionFilter {
    /// Whether an execution matches, apart from the page.
    pub fn matches(&self, row: &ExecutionRow, now: Time) -> bool {
        (self.statuses.is_empty() || self.statuses.contains(&row.status))
            && (self.paths.is_empty() || self.paths.contains(&row.path))
            && self.since.is_none_or(|since| row.started_at >= since)
            && self.until.is_none_or(|until| row.started_at < until)
            && (self.parent.is_none() || row.parent == self.parent)
            && self.search.matches(row, now)
    }
}

impl ExecutionSearch {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn matches(&self, row: &ExecutionRow, now: Time) -> bool {
        let duration = row.finished_at.unwrap_or(now).since(row.started_at);
        let code = row.error.as_deref().map(error_code);
        self.text.as_deref().is_none_or(|text| contains_text(row, text))
            && (self.error_code.is_none() || code == self.error_code.as_deref())
            && self.min_duration.is_none_or(|min| duration >= min)
            && self.max_duration.is_none_or(|max| duration <= max)
    }
}

/// The code of an error that consists of a code and a message.
pub fn error_code(error: &str) -> &str {
    error.split_once(": ").map_or(error, |(code, _)| code)
}

fn contains_text(row: &ExecutionRow, text: &str) -> bool {
    let text = text.to_lowercase();
    let current = row.current.as_ref().map(Name::as_str);
    let texts = [
        Some(row.path.as_str()),
        Some(row.name.as_str()),
        current,
        row.error.as_deref(),
    ];
    let mut texts = texts.into_iter().flatten();
    row.id.to_string().starts_with(&text) || texts.any(|value| value.to_lowercase().contains(&text))
}

/// What the databases write differently.
pub(crate) struct SqlDialect {
    /// The table of executions.
    pub(crate) table: &'static str,
    /// All columns of an execution, in the order in which rows are read.
    pub(crate) columns: &'static str,
    /// The first character of a placeholder; its number follows.
    pub(crate) placeholder: char,
    /// The operator that compares a text with a pattern in upper or lower case.
    pub(crate) like: &'static str,
}

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FilterValue {
    Integer(i64),
    Text(String),
}

/// A statement with its values.
pub(crate) struct ListStatement {
    pub(crate) sql: String,
    pub(crate) values: Vec<FilterValue>,
}

/// The columns of a [`FacetRow`].
pub(crate) const FACET_COLUMNS: &str = "status, path, started_at, error";

/// The statement that returns these columns of the matching executions, newest first.
pub(crate) fn list_statement(
    filter: &ExecutionFilter,
    columns: &str,
    dialect: &SqlDialect,
    now: Time,
) -> ListStatement {
    let mut builder = StatementBuilder {
        dialect,
        values: Vec::new(),
    };
    let selected = builder.indexed_conditions(filter);
    let SqlDialect {
        table,
        columns: all_columns,
        ..
    } = dialect;
    let order = "ORDER BY execution_id DESC LIMIT";
    let source = if filter.search.is_empty() {
        format!("{table} WHERE {selected}")
    } else {
        let newest = builder.integer(SEARCHED_EXECUTIONS_MAX as u64);
        let searched = builder.search_conditions(&filter.search, now);
        format!("(SELECT {all_columns} FROM {table} WHERE {selected} {order} {newest}) AS newest WHERE {searched}")
    };
    let limit = builder.integer(filter.limit as u64);
    ListStatement {
        sql: format!("SELECT {columns} FROM {source} {order} {limit}"),
        values: builder.values,
    }
}

struct StatementBuilder<'a> {
    dialect: &'a SqlDialect,
    values: Vec<FilterValue>,
}

impl StatementBuilder<'_> {
    /// Adds a value; returns its placeholder.
    fn value(&mut self, value: FilterValue) -> String {
        self.values.push(value);
        format!("{}{}", self.dialect.placeholder, self.values.len())
    }

    fn integer(&mut self, value: u64) -> String {
        self.value(FilterValue::Integer(to_i64(value)))
    }

    fn text(&mut self, text: &str) -> String {
        self.value(FilterValue::Text(text.to_owned()))
    }

    fn is_one_of<'b>(&mut self, column: &str, texts: impl Iterator<Item = &'b str>) -> Option<String> {
        let placeholders: Vec<String> = texts.map(|text| self.text(text)).collect();
        (!placeholders.is_empty()).then(|| format!("{column} IN ({})", placeholders.join(", ")))
    }

    /// The conditions that an index or the order of IDs supports.
    fn indexed_conditions(&mut self, filter: &ExecutionFilter) -> String {
        let statuses = filter.statuses.iter().map(|status| status.name());
        let mut conditions: Vec<String> = Vec::new();
        conditions.extend(self.is_one_of("status", statuses));
        conditions.extend(self.is_one_of("path", filter.paths.iter().map(Name::as_str)));
        let mut compare = |comparison: &str, value: i64| {
            let placeholder = self.value(FilterValue::Integer(value));
            conditions.push(format!("{comparison} {placeholder}"));
        };
        if let Some(since) = filter.since {
            compare("started_at >=", since.0);
            compare("execution_id >=", first_id_at(since.before(ID_TIME_TOLERANCE)));
        }
        if let Some(until) = filter.until {
            compare("started_at <", until.0);
            compare("execution_id <", first_id_at(until.after(ID_TIME_TOLERANCE)));
        }
        if let Some(parent) = filter.parent {
            compare("parent_id =", parent.0);
        }
        if let Some(before) = filter.before {
            compare("execution_id <", before.0);
        }
        if conditions.is_empty() {
            return "1 = 1".to_owned();
        }
        conditions.join(" AND ")
    }

    fn search_conditions(&mut self, search: &ExecutionSearch, now: Time) -> String {
        let mut conditions = Vec::new();
        if let Some(text) = &search.text {
            let like = self.dialect.like;
            let start = self.text(&format!("{}%", escape_pattern(text)));
            let part = self.text(&format!("%{}%", escape_pattern(text)));
            let mut alternatives = vec![format!("CAST(execution_id AS TEXT) LIKE {start} ESCAPE '\\'")];
            for column in ["path", "name", "current", "error"] {
                alternatives.push(format!("{column} {like} {part} ESCAPE '\\'"));
            }
            conditions.push(format!("({})", alternatives.join(" OR ")));
        }
        if let Some(code) = &search.error_code {
            let code_alone = self.text(code);
            let with_message = self.text(&format!("{}: %", escape_pattern(code)));
            conditions.push(format!(
                "(error = {code_alone} OR error LIKE {with_message} ESCAPE '\\')"
            ));
        }
        for (comparison, duration) in [(">=", search.min_duration), ("<=", search.max_duration)] {
            if let Some(duration) = duration {
                let now = self.value(FilterValue::Integer(now.0));
                let duration = self.value(FilterValue::Integer(
                    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX),
                ));
                conditions.push(format!(
                    "coalesce(finished_at, {now}) - started_at {comparison} {duration}"
                ));
            }
        }
        conditions.join(" AND ")
    }
}

/// Escapes the characters that have a meaning in a pattern of `LIKE`.
fn escape_pattern(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIALECT: SqlDialect = SqlDialect {
        table: "execution",
        columns: "execution_id, status",
        placeholder: '?',
        like: "LIKE",
    };

    #[test]
    fn a_list_without_filters_has_only_a_limit() {
        let statement = list_statement(&ExecutionFilter::default(), FACET_COLUMNS, &DIALECT, Time(0));
        assert_eq!(
            statement.sql,
            "SELECT status, path, started_at, error FROM execution WHERE 1 = 1 ORDER BY execution_id DESC LIMIT ?1"
        );
        assert_eq!(statement.values, [FilterValue::Integer(50)]);
    }

    #[test]
    fn a_search_examines_a_limited_number_of_executions() {
        let filter = ExecutionFilter {
            statuses: vec![RunStatus::Failed, RunStatus::Cancelled],
            search: ExecutionSearch {
                error_code: Some("HTTP_5%".to_owned()),
                ..ExecutionSearch::default()
            },
            ..ExecutionFilter::default()
        };
        let statement = list_statement(&filter, FACET_COLUMNS, &DIALECT, Time(0));
        assert!(
            statement
                .sql
                .contains("WHERE status IN (?1, ?2) ORDER BY execution_id DESC LIMIT ?3) AS newest")
        );
        assert!(
            statement
                .sql
                .ends_with("WHERE (error = ?4 OR error LIKE ?5 ESCAPE '\\') ORDER BY execution_id DESC LIMIT ?6")
        );
        assert_eq!(
            statement.values[2],
            FilterValue::Integer(to_i64(SEARCHED_EXECUTIONS_MAX as u64))
        );
        assert_eq!(statement.values[4], FilterValue::Text("HTTP\\_5\\%: %".to_owned()));
    }
}
