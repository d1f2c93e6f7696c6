//! How many rows of a log were read: what a reader costs, without a clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use model::id::ExecutionId;

static LOG_ROWS: Mutex<BTreeMap<ExecutionId, u64>> = Mutex::new(BTreeMap::new());

/// Number of log rows of an execution that this process has read from databases.
pub fn log_rows_read(id: ExecutionId) -> u64 {
    let rows = LOG_ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    rows.get(&id).copied().unwrap_or(0)
}

pub(crate) fn count_log_row(id: ExecutionId) {
    let mut rows = LOG_ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    *rows.entry(id).or_default() += 1;
}
