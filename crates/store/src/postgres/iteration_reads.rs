//! Reads many iterations at once: rows of their index, and when each ran.

use std::ops::Range;

use model::id::{ExecutionId, StepRunId};
use postgres::SqlValues;

use crate::damage::LogRowReader;
use crate::error::Error;
use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings, TimingCollector};
use crate::postgres::pool::SessionPool;
use crate::postgres::queries::{APPENDS_AT, query_rows};
use crate::postgres::rows::{self, to_i32, to_i64};

/// Number of appends that one statement reads.
const APPENDS_AT_ONCE: usize = 64;

pub(super) async fn iteration_rows(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    query: &IterationRowQuery,
) -> Result<Vec<IterationRow>, Error> {
    const ROWS: &str = "SELECT block, seq, iterations, CASE WHEN seq >= (SELECT failed_since FROM noetl.loop_progress p
            WHERE p.execution_id = $1 AND p.step_name = $2 AND p.run = $3) THEN failed ELSE 0 END
        FROM noetl.iteration_index
        WHERE execution_id = $1 AND step_name = $2 AND run = $3 AND (block, seq) > ($4, $5) AND block <= $6
        ORDER BY block, seq LIMIT $7";
    const FAILED_ROWS: &str = "SELECT block, seq, iterations, failed FROM noetl.iteration_index
        WHERE execution_id = $1 AND step_name = $2 AND run = $3 AND (block, seq) > ($4, $5) AND block <= $6
            AND failed <> 0 AND seq >= (SELECT failed_since FROM noetl.loop_progress p
                WHERE p.execution_id = $1 AND p.step_name = $2 AND p.run = $3)
        ORDER BY block, seq LIMIT $7";
    let statement = if query.is_failed_only { FAILED_ROWS } else { ROWS };
    let (block, seq) = (to_i64(query.after.0), to_i64(query.after.1.0));
    let (last_block, limit) = (to_i64(query.last_block), to_i64(query.limit as u64));
    let (step, number) = (run.step.as_str(), to_i32(run.run));
    let values: SqlValues<'_> = &[&id.0, &step, &number, &block, &seq, &last_block, &limit];
    query_rows(pool, statement, values, IterationRow::read).await
}

pub(super) async fn iteration_timings(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    iterations: &Range<u64>,
    appends_max: usize,
) -> Result<IterationTimings, Error> {
    let query = IterationRowQuery::of_iterations(iterations, false, appends_max.saturating_add(1));
    let mut index = iteration_rows(pool, id, run, &query).await?;
    let is_complete = index.len() <= appends_max;
    index.truncate(appends_max);
    index.sort_by_key(|row| row.seq);
    let mut collector = TimingCollector::new(run, iterations);
    let mut appends = 0;
    for part in index.chunks(APPENDS_AT_ONCE) {
        let seqs: Vec<i64> = part.iter().map(|row| to_i64(row.seq.0)).collect();
        query_rows(pool, APPENDS_AT, &[&id.0, &seqs], |row| {
            let is_selected = |head: model::event::EventHead<'_>| collector.is_selected(head);
            let events = rows::read_selected_events(&mut LogRowReader::for_single_row(id), row, is_selected)?;
            appends += 1;
            collector.add(&events);
            Ok(())
        })
        .await?;
    }
    Ok(collector.finish(appends, is_complete))
}
