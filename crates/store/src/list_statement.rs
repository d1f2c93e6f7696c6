//! The statement of a list of executions, which both databases apply.
//!
//! Input: an [`ExecutionFilter`]. Output: a statement with its values. It reads one index in the order of the list for each
//! combination of a status and a playbook, or the index of the parent, of one label, or of the error code. Conditions that
//! this index does not contain are checked for a bounded number of executions.

use std::time::Duration;

use model::id::Name;
use model::labels::Labels;
use model::status::RunStatus;
use model::time::Time;

use crate::columns::to_i64;
use crate::execution_filter::{ExecutionFilter, ExecutionSearch};
use crate::ids::first_id_at;

/// A status, playbook, label or code that the index of a list does not contain is checked for at most this many of the
/// newest executions that the index selects. Several selected playbooks share this number evenly.
const CHECKED_EXECUTIONS_MAX: usize = 20_000;

/// A text or a duration is searched for in at most this many of the newest executions that the index selects. Several
/// selected statuses and playbooks share this number evenly.
const SEARCHED_EXECUTIONS_MAX: usize = 50_000;

/// Maximum number of combinations of a status and a playbook that are read by their own index; with more, the statuses are
/// checked for each execution of the playbooks.
const COMBINATIONS_MAX: usize = 64;

/// An entry in the index of error codes has at most this many characters.
const INDEXED_CODE_CHARS_MAX: usize = 200;

/// How far the ID of an execution and its start may differ. IDs are ordered by time, so a list of a time range reads only
/// the IDs of this range, extended by this duration.
const ID_TIME_TOLERANCE: Duration = Duration::from_secs(24 * 60 * 60);

/// What the databases write differently.
pub(crate) struct SqlDialect {
    /// The table of executions.
    pub(crate) table: &'static str,
    /// The table of labels.
    pub(crate) label_table: &'static str,
    /// The code of the error `e.error`, as the index of error codes contains it.
    pub(crate) error_code: &'static str,
    /// The first character of a placeholder; its number follows.
    pub(crate) placeholder: char,
    /// Whether each part of a union is sorted and limited by itself. Postgres then merges the parts and reads only as much of
    /// each as it needs; SQLite does so without it.
    pub(crate) limits_parts: bool,
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

/// The columns of a `FacetRow`.
pub(crate) const FACET_COLUMNS: &str = "execution_id, status, path, started_at, error";

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
    let columns: Vec<String> = columns
        .split(',')
        .map(|column| format!("e.{}", column.trim()))
        .collect();
    let columns = columns.join(", ");
    let scans = builder.index_scans(filter);
    let range = builder.id_range(filter);
    let checks = builder.checks(filter, now);
    let searched = &filter.search;
    let is_search = searched.text.is_some() || searched.min_duration.is_some() || searched.max_duration.is_some();
    let checked_max = if is_search {
        SEARCHED_EXECUTIONS_MAX
    } else {
        CHECKED_EXECUTIONS_MAX
    };
    let checked_max = builder.integer((checked_max / scans.len()) as u64);
    let limit = builder.integer(filter.limit as u64);
    let order = match &scans[..] {
        [scan] => scan.id,
        _ => "execution_id",
    };
    let parts: Vec<String> = scans
        .iter()
        .map(|scan| {
            let conditions = scan.conditions(&range, &checks, &checked_max, dialect);
            let part = format!("SELECT {columns} FROM {} WHERE {conditions}", scan.source(dialect));
            if dialect.limits_parts && scans.len() > 1 {
                format!("({part} ORDER BY {} DESC LIMIT {limit})", scan.id)
            } else {
                part
            }
        })
        .collect();
    let mut union = parts.join(" UNION ALL ");
    if dialect.limits_parts && scans.len() > 1 {
        union = format!("SELECT * FROM ({union}) AS merged");
    }
    ListStatement {
        sql: format!("{union} ORDER BY {order} DESC LIMIT {limit}"),
        values: builder.values,
    }
}

/// A part of an index, read from the newest execution to the oldest.
struct IndexScan {
    /// The column with the ID.
    id: &'static str,
    /// What selects the part.
    selected: Vec<String>,
    /// Other conditions of this scan.
    checked: Vec<String>,
}

/// Conditions that apply to all scans.
#[derive(Default)]
struct Checks {
    /// Limits of the start, which almost follow from the range of IDs.
    times: Vec<String>,
    /// Conditions that the indexes do not contain.
    others: Vec<String>,
}

const EXECUTION_ID: &str = "e.execution_id";
const LABELLED_ID: &str = "l.execution_id";

impl IndexScan {
    /// The tables that are read. A cross join makes SQLite read the labels first.
    fn source(&self, dialect: &SqlDialect) -> String {
        let SqlDialect { table, label_table, .. } = dialect;
        match self.id {
            LABELLED_ID => format!("{label_table} AS l CROSS JOIN {table} AS e"),
            _ => format!("{table} AS e"),
        }
    }

    fn conditions(&self, range: &[String], checks: &Checks, checked_max: &str, dialect: &SqlDialect) -> String {
        let id = self.id;
        let mut conditions = self.selected.clone();
        conditions.extend(range.iter().map(|limit| format!("{id} {limit}")));
        let indexed = conditions.clone();
        if id == LABELLED_ID {
            conditions.push(format!("{EXECUTION_ID} = {LABELLED_ID}"));
        }
        conditions.extend(checks.times.iter().cloned());
        if !checks.others.is_empty() || !self.checked.is_empty() {
            let index = match id {
                LABELLED_ID => format!("{} AS l", dialect.label_table),
                _ => format!("{} AS e", dialect.table),
            };
            let indexed = join_conditions(&indexed);
            conditions.push(format!(
                "{id} >= coalesce((SELECT {id} FROM {index} WHERE {indexed} ORDER BY {id} DESC LIMIT 1 \
                 OFFSET {checked_max}), 0)"
            ));
            conditions.extend(self.checked.iter().chain(&checks.others).cloned());
        }
        join_conditions(&conditions)
    }
}

fn join_conditions(conditions: &[String]) -> String {
    if conditions.is_empty() {
        return "1 = 1".to_owned();
    }
    conditions.join(" AND ")
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

    fn texts<'b>(&mut self, texts: impl Iterator<Item = &'b str>) -> Vec<String> {
        texts.map(|text| self.text(text)).collect()
    }

    /// The scans that together return every matching execution once.
    fn index_scans(&mut self, filter: &ExecutionFilter) -> Vec<IndexScan> {
        let (statuses, paths) = (self.statuses(filter), self.paths(filter));
        if filter.parent.is_some() || !filter.labels.is_empty() || filter.search.error_code.is_some() {
            let mut scan = self.selective_scan(filter);
            // The concatenation prevents the use of the indexes of these columns.
            for (column, placeholders) in [("e.status", statuses), ("e.path", paths)] {
                if !placeholders.is_empty() {
                    let condition = format!("{column} || '' IN ({})", placeholders.join(", "));
                    scan.checked.push(condition);
                }
            }
            return vec![scan];
        }
        let is_combined = statuses.len() * paths.len() <= COMBINATIONS_MAX;
        let mut checked = Vec::new();
        let mut by_status = statuses.iter().map(|status| format!("e.status = {status}")).collect();
        if !is_combined {
            checked.push(format!("e.status || '' IN ({})", statuses.join(", ")));
            by_status = Vec::new();
        }
        let by_path: Vec<String> = paths.iter().map(|path| format!("e.path = {path}")).collect();
        let combinations = combine(by_status, &by_path).into_iter();
        let scans = combinations.map(|selected| IndexScan {
            id: EXECUTION_ID,
            selected,
            checked: checked.clone(),
        });
        scans.collect()
    }

    fn statuses(&mut self, filter: &ExecutionFilter) -> Vec<String> {
        let mut statuses: Vec<RunStatus> = Vec::new();
        for status in &filter.statuses {
            if !statuses.contains(status) {
                statuses.push(*status);
            }
        }
        self.texts(statuses.iter().map(|status| status.name()))
    }

    fn paths(&mut self, filter: &ExecutionFilter) -> Vec<String> {
        let mut paths: Vec<&str> = filter.paths.iter().map(Name::as_str).collect();
        paths.sort_unstable();
        paths.dedup();
        self.texts(paths.into_iter())
    }

    /// The scan of the index that selects the fewest executions: of a parent, a label, or an error code.
    fn selective_scan(&mut self, filter: &ExecutionFilter) -> IndexScan {
        let mut scan = IndexScan {
            id: EXECUTION_ID,
            selected: Vec::new(),
            checked: Vec::new(),
        };
        let mut labels = self.label_conditions(&filter.labels);
        let code = filter.search.error_code.as_deref().map(|code| {
            let indexed: String = code.chars().take(INDEXED_CODE_CHARS_MAX).collect();
            let indexed = self.text(&indexed);
            format!("{} = {indexed}", self.dialect.error_code)
        });
        let failed = "e.error IS NOT NULL".to_owned();
        if let Some(parent) = filter.parent {
            let parent = self.value(FilterValue::Integer(parent.0));
            scan.selected.push(format!("e.parent_id = {parent}"));
            scan.checked.extend(code.map(|code| format!("{failed} AND {code}")));
        } else if labels.is_empty() {
            scan.selected.push(failed);
            scan.selected.extend(code);
        } else {
            let (key, value) = labels.remove(0);
            scan.id = LABELLED_ID;
            scan.selected
                .extend([format!("l.key = {key}"), format!("l.value = {value}")]);
            scan.checked.extend(code.map(|code| format!("{failed} AND {code}")));
        }
        let table = self.dialect.label_table;
        scan.checked.extend(labels.into_iter().map(|(key, value)| {
            format!(
                "EXISTS (SELECT 1 FROM {table} AS o WHERE o.execution_id = e.execution_id AND o.key = {key} \
                 AND o.value = {value})"
            )
        }));
        scan
    }

    /// The placeholders of the keys and values of labels.
    fn label_conditions(&mut self, labels: &Labels) -> Vec<(String, String)> {
        let labels = labels.iter();
        labels
            .map(|(key, value)| (self.text(key.as_str()), self.text(value.as_str())))
            .collect()
    }

    /// The limits of the IDs.
    fn id_range(&mut self, filter: &ExecutionFilter) -> Vec<String> {
        let first = filter.since.map(|since| first_id_at(since.before(ID_TIME_TOLERANCE)));
        let last = filter.until.map(|until| first_id_at(until.after(ID_TIME_TOLERANCE)));
        let before = filter.before.map(|before| before.0);
        let limits = [(">=", first), ("<", last), ("<", before)];
        let limits = limits
            .into_iter()
            .filter_map(|(comparison, id)| id.map(|id| (comparison, id)));
        limits
            .map(|(comparison, id)| format!("{comparison} {}", self.value(FilterValue::Integer(id))))
            .collect()
    }

    fn checks(&mut self, filter: &ExecutionFilter, now: Time) -> Checks {
        let mut checks = Checks::default();
        for (comparison, time) in [(">=", filter.since), ("<", filter.until)] {
            if let Some(time) = time {
                let time = self.value(FilterValue::Integer(time.0));
                checks.times.push(format!("e.started_at {comparison} {time}"));
            }
        }
        checks.others.extend(self.search_text(&filter.search));
        for (comparison, duration) in [(">=", filter.search.min_duration), ("<=", filter.search.max_duration)] {
            if let Some(duration) = duration {
                let now = self.value(FilterValue::Integer(now.0));
                let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
                let duration = self.value(FilterValue::Integer(micros));
                checks.others.push(format!(
                    "coalesce(e.finished_at, {now}) - e.started_at {comparison} {duration}"
                ));
            }
        }
        checks
    }

    fn search_text(&mut self, search: &ExecutionSearch) -> Option<String> {
        let text = search.text.as_deref()?;
        let like = self.dialect.like;
        let start = self.text(&format!("{}%", escape_pattern(text)));
        let part = self.text(&format!("%{}%", escape_pattern(text)));
        let mut alternatives = vec![format!("CAST(e.execution_id AS TEXT) LIKE {start} ESCAPE '\\'")];
        for column in ["path", "name", "current", "error"] {
            alternatives.push(format!("e.{column} {like} {part} ESCAPE '\\'"));
        }
        Some(format!("({})", alternatives.join(" OR ")))
    }
}

/// Every combination of a condition of the first and of the second list; an empty list adds none.
fn combine(first: Vec<String>, second: &[String]) -> Vec<Vec<String>> {
    let single = |conditions: &[String]| conditions.iter().map(|condition| vec![condition.clone()]).collect();
    match (first.is_empty(), second.is_empty()) {
        (true, true) => vec![Vec::new()],
        (true, false) => single(second),
        (false, true) => single(&first),
        (false, false) => {
            let pairs = first
                .into_iter()
                .flat_map(|a| second.iter().map(move |b| vec![a.clone(), b.clone()]));
            pairs.collect()
        }
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
mod tests;
