//! Reads many iterations at once: rows of their index, and when each ran.

use std::ops::Range;

use model::id::{ExecutionId, Seq, StepRunId};
use rusqlite::{Connection, params};

use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings, TimingCollector};
use crate::sqlite::queries::{self, ReadError};
use crate::sqlite::rows::{query_rows, to_i64};

pub(super) fn iteration_rows(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    query: &IterationRowQuery,
) -> Result<Vec<IterationRow>, ReadError> {
    const ROWS: &str = "SELECT block, seq, iterations, iif(seq >= (SELECT failed_since FROM loop_progress p
             WHERE p.execution_id = ?1 AND p.step_name = ?2 AND p.run = ?3), failed, 0) FROM iteration_index
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND (block, seq) > (?4, ?5) AND block <= ?6
         ORDER BY block, seq LIMIT ?7";
    const FAILED_ROWS: &str = "SELECT block, seq, iterations, failed FROM iteration_index INDEXED BY iteration_failed
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND (block, seq) > (?4, ?5) AND block <= ?6
             AND failed <> 0 AND seq >= (SELECT failed_since FROM loop_progress p
                 WHERE p.execution_id = ?1 AND p.step_name = ?2 AND p.run = ?3)
         ORDER BY block, seq LIMIT ?7";
    let statement = if query.is_failed_only { FAILED_ROWS } else { ROWS };
    let (block, seq) = query.after;
    let values = params![
        id.0,
        run.step.as_str(),
        run.run,
        to_i64(block),
        to_i64(seq.0),
        to_i64(query.last_block),
        to_i64(query.limit as u64),
    ];
    Ok(query_rows(db, statement, values, |row| IterationRow::read(row))?)
}

pub(super) fn iteration_timings(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    iterations: &Range<u64>,
    appends_max: usize,
) -> Result<IterationTimings, ReadError> {
    let query = IterationRowQuery::of_iterations(iterations, false, appends_max.saturating_add(1));
    let mut rows = iteration_rows(db, id, run, &query)?;
    let is_complete = rows.len() <= appends_max;
    rows.sort_by_key(|row| row.seq);
    let mut collector = TimingCollector::new(run, iterations);
    let (mut last, mut appends) = (Seq(0), 0);
    for row in rows.iter().take(appends_max) {
        if row.seq > last {
            let append = queries::append_containing(db, id, row.seq, |head| collector.is_selected(head))?;
            last = append.last;
            appends += 1;
            collector.add(&append.events);
        }
    }
    Ok(collector.finish(appends, is_complete))
}
