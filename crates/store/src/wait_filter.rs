//! Filters of lists of pending waits, and the statement with which both databases apply them.
//!
//! Input: a [`WaitFilter`]. Output: a statement with its values, or whether a wait matches.

use std::cmp::Ordering;

use model::id::{ExecutionId, Name, Seq};
use model::time::Time;

use crate::columns::to_i64;
use crate::list_statement::{FilterValue, ListStatement};
use crate::rows::{PendingSignalWait, WaitEntry};

/// Filters of a list of pending waits. Waits of executions that are being cancelled are never listed.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitFilter {
    /// Only waits of this execution.
    pub execution: Option<ExecutionId>,
    /// Only waits of executions of this playbook.
    pub path: Option<Name>,
    /// Only waits for this signal.
    pub signal: Option<Name>,
    /// Whether the oldest wait comes first; otherwise the newest does.
    pub oldest_first: bool,
    /// Only waits that come after this one in the order.
    pub after: Option<WaitPosition>,
    /// Maximum number of results.
    pub limit: usize,
}

impl Default for WaitFilter {
    fn default() -> Self {
        Self {
            execution: None,
            path: None,
            signal: None,
            oldest_first: false,
            after: None,
            limit: 50,
        }
    }
}

/// The position of a wait in lists: they are ordered by start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitPosition {
    /// When the wait began.
    pub since: Time,
    /// The execution.
    pub execution: ExecutionId,
    /// The event that began it.
    pub seq: Seq,
}

impl PendingSignalWait {
    /// The position in lists.
    pub fn position(&self) -> WaitPosition {
        WaitPosition {
            since: self.since,
            execution: self.execution,
            seq: self.seq,
        }
    }
}

impl WaitFilter {
    /// Whether a wait of an active execution matches.
    pub fn matches(&self, entry: &WaitEntry) -> bool {
        let wait = &entry.wait;
        self.execution.is_none_or(|execution| wait.execution == execution)
            && self.path.as_ref().is_none_or(|path| entry.path == *path)
            && self.signal.as_ref().is_none_or(|signal| wait.signal == *signal)
            && self
                .after
                .is_none_or(|after| self.compare(after, wait.position()) == Ordering::Less)
    }

    /// The order of two waits in the list.
    pub fn compare(&self, first: WaitPosition, second: WaitPosition) -> Ordering {
        let order = first.cmp(&second);
        if self.oldest_first { order } else { order.reverse() }
    }
}

/// The columns of a [`WaitEntry`].
const WAIT_COLUMNS: &str = "w.execution_id, w.seq, w.step_name, w.run, w.task_label, w.iteration, w.signal, \
     w.since, w.deadline, w.approval, e.path, e.playbook_version";

/// The statement that returns the matching waits, in order. `schema` precedes the names of tables; `placeholder`
/// precedes the numbers of values.
pub(crate) fn wait_statement(filter: &WaitFilter, schema: &str, placeholder: char) -> ListStatement {
    let oldest = format!(
        "(SELECT min(o.seq) FROM {schema}pending_wait o WHERE o.execution_id = w.execution_id AND o.signal = w.signal)"
    );
    select_waits(
        filter,
        &format!("{WAIT_COLUMNS}, w.seq = {oldest}"),
        schema,
        placeholder,
    )
}

/// The statement that counts the matching waits, up to the limit.
pub(crate) fn wait_count_statement(filter: &WaitFilter, schema: &str, placeholder: char) -> ListStatement {
    let selected = select_waits(filter, "w.seq", schema, placeholder);
    ListStatement {
        sql: format!("SELECT count(*) FROM ({}) AS counted", selected.sql),
        ..selected
    }
}

fn select_waits(filter: &WaitFilter, columns: &str, schema: &str, placeholder: char) -> ListStatement {
    let mut values = Vec::new();
    let mut add = |value: FilterValue| {
        values.push(value);
        format!("{placeholder}{}", values.len())
    };
    let mut conditions = vec!["e.status IN ('RUNNING', 'PAUSED') AND NOT e.cancelling".to_owned()];
    if let Some(execution) = filter.execution {
        conditions.push(format!("w.execution_id = {}", add(FilterValue::Integer(execution.0))));
    }
    if let Some(path) = &filter.path {
        conditions.push(format!("e.path = {}", add(FilterValue::Text(path.to_string()))));
    }
    if let Some(signal) = &filter.signal {
        conditions.push(format!("w.signal = {}", add(FilterValue::Text(signal.to_string()))));
    }
    let (comparison, order) = if filter.oldest_first {
        ('>', "ASC")
    } else {
        ('<', "DESC")
    };
    if let Some(after) = filter.after {
        let position = [after.since.0, after.execution.0, to_i64(after.seq.0)];
        let position = position.map(|number| add(FilterValue::Integer(number))).join(", ");
        conditions.push(format!("(w.since, w.execution_id, w.seq) {comparison} ({position})"));
    }
    let limit = add(FilterValue::Integer(to_i64(filter.limit as u64)));
    let conditions = conditions.join(" AND ");
    let sql = format!(
        "SELECT {columns} FROM {schema}pending_wait w JOIN {schema}execution e ON e.execution_id = w.execution_id \
         WHERE {conditions} ORDER BY w.since {order}, w.execution_id {order}, w.seq {order} LIMIT {limit}"
    );
    ListStatement { sql, values }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_has_only_the_conditions_of_its_filter() {
        let all = wait_count_statement(&WaitFilter::default(), "", '?');
        assert_eq!(
            all.sql,
            "SELECT count(*) FROM (SELECT w.seq FROM pending_wait w \
             JOIN execution e ON e.execution_id = w.execution_id \
             WHERE e.status IN ('RUNNING', 'PAUSED') AND NOT e.cancelling \
             ORDER BY w.since DESC, w.execution_id DESC, w.seq DESC LIMIT ?1) AS counted"
        );
        assert_eq!(all.values, [FilterValue::Integer(50)]);
        let filter = WaitFilter {
            signal: Some("go".into()),
            oldest_first: true,
            after: Some(WaitPosition {
                since: Time(7),
                execution: ExecutionId(8),
                seq: Seq(9),
            }),
            ..WaitFilter::default()
        };
        let next = wait_statement(&filter, "noetl.", '$');
        assert!(
            next.sql
                .contains("w.signal = $1 AND (w.since, w.execution_id, w.seq) > ($2, $3, $4) ORDER BY w.since ASC")
        );
        assert!(next.sql.contains("FROM noetl.pending_wait w JOIN noetl.execution e"));
        assert_eq!(next.values.len(), 5);
    }
}
