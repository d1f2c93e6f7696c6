//! Rows of `loop_progress`, `loop_task`, `iteration_index` and `iteration_span`: written with each append, and read.

use std::collections::BTreeSet;
use std::ops::Range;

use model::event::{Event, EventHead};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::labels::Labels;
use postgres::{QueryError, SqlValues};
use serde::Serialize;
use tokio_postgres::Transaction;
use tokio_postgres::types::Json;

use crate::columns::Columns as _;
use crate::damage::LogRowReader;
use crate::error::Error;
use crate::iterations::{IterationBlock, IterationDelta, ProgressChange, block_indices, block_of, is_of_iterations};
use crate::outcomes::OutcomeCollector;
use crate::postgres::pool::SessionPool;
use crate::postgres::queries::{APPENDS_AT, query_row, query_rows};
use crate::postgres::rows::{self, read_row, to_i32, to_i64};
use crate::rows::{IterationOutcomes, LoopProgress, LoopTask, OutcomeRange};

/// Rows of the log read at a time.
const PAGE: i64 = 100;

/// Maximum number of appends with outcomes in memory at a time.
const APPENDS_AT_ONCE: usize = 32;

/// The changes of a batch's commits, as `noetl.write_iterations_and_labels` reads them; `m` is the number of the member, from 1.
#[derive(Debug, Default, Serialize)]
pub(super) struct IterationChanges {
    progress: Vec<ProgressJson>,
    tasks: Vec<TaskJson>,
    blocks: Vec<BlockJson>,
    spans: Vec<SpanJson>,
    labels: Vec<LabelJson>,
}

/// A change to `loop_progress`; without a step, the start of a new generation.
#[derive(Debug, Default, Serialize)]
struct ProgressJson {
    m: i32,
    step: Option<String>,
    run: u32,
    seq: u64,
    succeeded: u64,
    failed: u64,
    retries: u64,
}

/// A change to `loop_task`.
#[derive(Debug, Serialize)]
struct TaskJson {
    m: i32,
    step: String,
    task: String,
    run: u32,
    succeeded: Option<u64>,
    failed: Option<u64>,
}

/// A new row of `iteration_index`.
#[derive(Debug, Serialize)]
struct BlockJson {
    m: i32,
    step: String,
    run: u32,
    block: u64,
    seq: u64,
    iterations: i64,
    failed: i64,
}

/// A row of `iteration_span`, new or extending another one.
#[derive(Debug, Serialize)]
struct SpanJson {
    m: i32,
    seq_first: u64,
    seq_last: u64,
}

/// A label of a new execution.
#[derive(Debug, Serialize)]
struct LabelJson {
    m: i32,
    key: String,
    value: String,
}

impl IterationChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.progress.is_empty() && self.blocks.is_empty() && self.spans.is_empty() && self.labels.is_empty()
    }

    /// Adds the labels of a new execution.
    pub(super) fn add_labels(&mut self, member: i32, labels: &Labels) {
        self.labels.extend(labels.iter().map(|(key, value)| LabelJson {
            m: member,
            key: key.to_string(),
            value: value.to_string(),
        }));
    }

    /// Adds the changes of a member's events.
    pub(super) fn add(&mut self, member: i32, delta: &IterationDelta) {
        let m = member;
        self.progress.extend(delta.progress.iter().map(|change| match change {
            ProgressChange::NewGeneration => ProgressJson {
                m,
                ..ProgressJson::default()
            },
            ProgressChange::Count(count) => ProgressJson {
                m,
                step: Some(count.run.step.to_string()),
                run: count.run.run,
                seq: count.seq.0,
                succeeded: count.succeeded,
                failed: count.failed,
                retries: count.retries,
            },
        }));
        self.tasks.extend(delta.tasks.iter().map(|ends| TaskJson {
            m,
            step: ends.run.step.to_string(),
            task: ends.task.to_string(),
            run: ends.run.run,
            succeeded: ends.succeeded.map(|seq| seq.0),
            failed: ends.failed.map(|seq| seq.0),
        }));
        self.blocks.extend(delta.blocks.iter().map(|block| BlockJson {
            m,
            step: block.run.step.to_string(),
            run: block.run.run,
            block: block.block,
            seq: block.seq.0,
            iterations: block.iterations.cast_signed(),
            failed: block.failed.cast_signed(),
        }));
        self.spans.extend(delta.span.iter().map(|span| SpanJson {
            m,
            seq_first: span.first.0,
            seq_last: span.last.0,
        }));
    }
}

/// Writes the rows of an execution that has none, from its log.
pub(super) async fn rebuild(transaction: &Transaction<'_>, id: ExecutionId) -> Result<(), QueryError> {
    let page = "SELECT seq_first, body FROM noetl.log
        WHERE execution_id = $1 AND seq_last > $2 ORDER BY seq_last LIMIT $3";
    let write = "SELECT noetl.write_iterations(ARRAY[0], ARRAY[$1::bigint], $2)";
    let mut reading = LogRowReader::starting_after(id, Seq(0));
    let mut last = Seq(0);
    loop {
        let appends = transaction.query(page, &[&id.0, &to_i64(last.0), &PAGE]).await?;
        let mut changes = IterationChanges::default();
        for append in &appends {
            let events = rows::read_events(&mut reading, append)?;
            last = events.last().map_or(last, |event| event.seq);
            changes.add(1, &IterationDelta::from_events(&events));
        }
        if !changes.is_empty() {
            transaction.query(write, &[&id.0, &Json(&changes)]).await?;
        }
        if appends.is_empty() {
            return Ok(());
        }
    }
}

/// Writes the rows of every execution in a store of an earlier version. Of a damaged log, indexes the readable part.
pub(super) async fn index_old_logs(transaction: &Transaction<'_>) -> Result<(), QueryError> {
    let list = "SELECT execution_id FROM noetl.execution ORDER BY execution_id";
    for row in transaction.query(list, &[]).await? {
        let id = row.execution_id(0)?;
        match rebuild(transaction, id).await {
            Err(QueryError::BadRow(error)) => {
                tracing::warn!(execution_id = %id, %error, "failed to index the iterations of a damaged log");
            }
            other => other?,
        }
    }
    Ok(())
}

pub(super) async fn loops(pool: &SessionPool, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
    const LOOPS: &str = "SELECT step_name, run, succeeded, failed, retries FROM noetl.loop_progress
        WHERE execution_id = $1 ORDER BY step_name COLLATE \"C\", run";
    query_rows(pool, LOOPS, &[&id.0], read_row).await
}

pub(super) async fn iteration_events(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    iterations: Range<u64>,
) -> Result<Vec<Event>, Error> {
    let blocks = read_index_rows(pool, id, run, &iterations).await?;
    let blocks = blocks.iter().filter(|block| block.has_any(&iterations));
    let seqs: Vec<i64> = blocks.map(|block| to_i64(block.seq.0)).collect();
    let appends = query_rows(pool, APPENDS_AT, &[&id.0, &seqs], |row| {
        rows::read_selected_events(&mut LogRowReader::for_single_row(id), row, |head| {
            is_of_iterations(head, run, &iterations)
        })
    })
    .await?;
    Ok(appends.into_iter().flatten().collect())
}

pub(super) async fn iteration_outcomes(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    range: &OutcomeRange,
) -> Result<IterationOutcomes, Error> {
    let mut collector = OutcomeCollector::new(run, range);
    let blocks = read_index_rows(pool, id, run, &range.iterations).await?;
    for blocks in blocks.chunks(APPENDS_AT_ONCE) {
        let is_selected = |block: &&IterationBlock| block.has_any(collector.iterations());
        let selected_blocks = blocks.iter().filter(is_selected);
        let seqs: Vec<i64> = selected_blocks.map(|block| to_i64(block.seq.0)).collect();
        if seqs.is_empty() {
            continue;
        }
        query_rows(pool, APPENDS_AT, &[&id.0, &seqs], |row| {
            let is_selected = |head: EventHead<'_>| collector.is_selected(head);
            let events = rows::read_selected_events(&mut LogRowReader::for_single_row(id), row, is_selected)?;
            collector.add(events);
            Ok(())
        })
        .await?;
    }
    Ok(collector.finish())
}

pub(super) async fn loop_task(
    pool: &SessionPool,
    id: ExecutionId,
    step: &Name,
    run: Option<u32>,
    task: &Name,
) -> Result<Option<LoopTask>, Error> {
    const LATEST: &str = "SELECT run, succeeded_seq, failed_seq FROM noetl.loop_task
        WHERE execution_id = $1 AND step_name = $2 AND task_label = $3 AND run BETWEEN $4 AND $5
        ORDER BY run DESC LIMIT 1";
    let (first, last) = run.map_or((0, i32::MAX), |run| (to_i32(run), to_i32(run)));
    let values: SqlValues<'_> = &[&id.0, &step.as_str(), &task.as_str(), &first, &last];
    query_row(pool, LATEST, values, read_row).await
}

/// The rows of the index for these iterations, by seq.
async fn read_index_rows(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    iterations: &Range<u64>,
) -> Result<Vec<IterationBlock>, Error> {
    const BLOCKS: &str = "SELECT block, seq, iterations, failed FROM noetl.iteration_index
        WHERE execution_id = $1 AND step_name = $2 AND run = $3 AND block BETWEEN $4 AND $5";
    if iterations.is_empty() {
        return Ok(Vec::new());
    }
    let first = to_i64(block_of(iterations.start));
    let last = to_i64(block_of(iterations.end - 1));
    let (step, number) = (run.step.as_str(), to_i32(run.run));
    let values: SqlValues<'_> = &[&id.0, &step, &number, &first, &last];
    let mut blocks = query_rows(pool, BLOCKS, values, |row| IterationBlock::read(row, run)).await?;
    blocks.sort_by_key(|block| block.seq);
    Ok(blocks)
}

pub(super) async fn failed_iterations(
    pool: &SessionPool,
    id: ExecutionId,
    run: &StepRunId,
    limit: usize,
) -> Result<Vec<u64>, Error> {
    // Each row has at least one failed iteration. All rows of the last block are read, because they are not ordered by
    // iteration.
    const FAILED: &str = "SELECT block, seq, iterations, failed FROM noetl.iteration_index
        WHERE execution_id = $1 AND step_name = $2 AND run = $3 AND failed <> 0
            AND seq >= (SELECT failed_since FROM noetl.loop_progress p
                WHERE p.execution_id = $1 AND p.step_name = $2 AND p.run = $3)
        ORDER BY block FETCH FIRST ($4::bigint) ROWS WITH TIES";
    let (step, number, most) = (run.step.as_str(), to_i32(run.run), to_i64(limit as u64));
    let blocks = query_rows(pool, FAILED, &[&id.0, &step, &number, &most], |row| {
        IterationBlock::read(row, run)
    })
    .await?;
    let failed: BTreeSet<u64> = blocks
        .iter()
        .flat_map(|block| block_indices(block.block, block.failed))
        .collect();
    Ok(failed.into_iter().take(limit).collect())
}

pub(super) async fn iteration_count(pool: &SessionPool, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
    const LAST: &str = "SELECT block, seq, iterations, failed FROM noetl.iteration_index
        WHERE execution_id = $1 AND step_name = $2 AND run = $3 AND block = (
            SELECT max(block) FROM noetl.iteration_index WHERE execution_id = $1 AND step_name = $2 AND run = $3)";
    let (step, number) = (run.step.as_str(), to_i32(run.run));
    let blocks = query_rows(pool, LAST, &[&id.0, &step, &number], |row| {
        IterationBlock::read(row, run)
    })
    .await?;
    let recorded = blocks
        .iter()
        .flat_map(|block| block_indices(block.block, block.iterations));
    Ok(recorded.max().map_or(0, |index| index + 1))
}

pub(super) async fn outline(
    pool: &SessionPool,
    id: ExecutionId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Event>, Error> {
    const SPAN: &str = "SELECT seq_first, seq_last FROM noetl.iteration_span
        WHERE execution_id = $1 AND seq_last > $2 ORDER BY seq_last LIMIT 1";
    const APPENDS: &str = "SELECT seq_first, body FROM noetl.log
        WHERE execution_id = $1 AND seq_last > $2 AND seq_last < $3 ORDER BY seq_last LIMIT $4";
    let mut events: Vec<Event> = Vec::new();
    let mut position = after;
    while events.len() < limit {
        let from = to_i64(position.0);
        let span = query_row(pool, SPAN, &[&id.0, &from], |row| {
            Ok((to_i64(row.unsigned(0)?), row.seq(1)?))
        })
        .await?;
        let until = span.map_or(i64::MAX, |(first, _)| first);
        let mut reading = LogRowReader::starting_after(id, position);
        let appends = query_rows(pool, APPENDS, &[&id.0, &from, &until, &PAGE], |row| {
            rows::read_events(&mut reading, row)
        })
        .await?;
        let is_page = to_i64(appends.len() as u64) == PAGE;
        let last = appends.last().and_then(|append| append.last());
        let last = last.map(|event| event.seq);
        let page_events = appends.into_iter().flatten();
        let limit_left = limit - events.len();
        events.extend(page_events.filter(|event| event.seq > after).take(limit_left));
        position = match (last.filter(|_| is_page), span) {
            (Some(last), _) | (None, Some((_, last))) => last,
            (None, None) => break,
        };
    }
    Ok(events)
}
