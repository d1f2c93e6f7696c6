//! Damage to the log: rows that were modified, and rows that are missing.

use model::event::{CodecError, Event, EventHead, unpack_selected};
use model::id::{ExecutionId, Seq};

use crate::error::BoxError;

/// A damaged or missing row of the log.
#[derive(Debug, thiserror::Error)]
#[error("run {execution}, log row of event {seq}: {cause}")]
pub(crate) struct DamagedRow {
    execution: ExecutionId,
    /// The first event of the row.
    seq: Seq,
    cause: BoxError,
}

impl DamagedRow {
    pub(crate) fn new(execution: ExecutionId, seq: Seq, problem: impl Into<BoxError>) -> Self {
        Self {
            execution,
            seq,
            cause: problem.into(),
        }
    }
}

/// Reads the log of one execution row by row; every row must continue the previous one.
pub(crate) struct LogRowReader {
    execution: ExecutionId,
    /// The next expected sequence number.
    next: Seq,
    is_started: bool,
}

impl LogRowReader {
    /// Starts after a sequence number; the first row may contain earlier events too.
    pub(crate) fn starting_after(execution: ExecutionId, after: Seq) -> Self {
        Self {
            execution,
            next: after.next(),
            is_started: false,
        }
    }

    /// For reading a single row.
    pub(crate) fn for_single_row(execution: ExecutionId) -> Self {
        Self {
            execution,
            next: Seq(u64::MAX),
            is_started: false,
        }
    }

    /// Reads the wanted events of the next row.
    pub(crate) fn read_row(
        &mut self,
        first: Seq,
        body: &str,
        is_selected: impl FnMut(EventHead<'_>) -> bool,
    ) -> Result<Vec<Event>, DamagedRow> {
        let damaged = |cause: CodecError| DamagedRow::new(self.execution, first, cause);
        let unpacked = unpack_selected(self.execution, first, body, is_selected).map_err(damaged)?;
        let continues = if self.is_started {
            first == self.next
        } else {
            first <= self.next
        };
        if !continues {
            return Err(self.missing_row());
        }
        self.is_started = true;
        self.next = Seq(first.0 + unpacked.total as u64);
        #[cfg(any(test, feature = "contract"))]
        crate::contract::count_log_row(self.execution);
        Ok(unpacked.events)
    }

    /// Checks that the rows reach the last event of the execution.
    pub(crate) fn check_end(&self, version: Seq) -> Result<(), DamagedRow> {
        if self.next > version {
            Ok(())
        } else {
            Err(self.missing_row())
        }
    }

    fn missing_row(&self) -> DamagedRow {
        DamagedRow::new(self.execution, self.next, "the row is missing")
    }
}
