//! Filters of lists of executions. `list_statement` has the statement with which both databases apply them.

use std::time::Duration;

use model::id::{ExecutionId, Name};
use model::labels::Labels;
use model::status::RunStatus;
use model::time::Time;

use crate::rows::ExecutionRow;

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
    /// Only executions with all of these labels.
    pub labels: Labels,
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
            labels: Labels::default(),
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
    /// The execution.
    pub id: ExecutionId,
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
    /// Whether an execution matches, apart from the page and the labels.
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
