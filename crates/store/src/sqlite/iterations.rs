//! Rows of `loop_progress`, `loop_task`, `iteration_index` and `iteration_span`: written with each append, and read.

use std::collections::BTreeSet;
use std::ops::Range;

use model::event::{Event, EventHead};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use rusqlite::{Connection, params};

use crate::columns::Columns as _;
use crate::damage::LogRowReader;
use crate::iterations::{
    IterationBlock, IterationDelta, ProgressChange, ProgressCount, SeqSpan, TaskEnds, block_indices, block_of,
    is_of_iterations,
};
use crate::outcomes::OutcomeCollector;
use crate::rows::{IterationOutcomes, LoopProgress, LoopTask, OutcomeRange};
use crate::sqlite::queries::{self, ReadError};
use crate::sqlite::rows::{query_row, query_rows, read_row, to_i64};

/// Writes the changes of one append.
pub(super) fn write_iterations(db: &Connection, id: ExecutionId, delta: &IterationDelta) -> rusqlite::Result<()> {
    for change in &delta.progress {
        match change {
            ProgressChange::NewGeneration => {
                db.prepare_cached("UPDATE loop_progress SET is_stale = 1 WHERE execution_id = ?1")?
                    .execute([id.0])?;
            }
            ProgressChange::Count(count) => write_count(db, id, count)?,
        }
    }
    for ends in &delta.tasks {
        write_task(db, id, ends)?;
    }
    for block in &delta.blocks {
        write_block(db, id, block)?;
    }
    if let Some(span) = delta.span {
        write_span(db, id, span)?;
    }
    Ok(())
}

fn write_count(db: &Connection, id: ExecutionId, count: &ProgressCount) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO loop_progress (execution_id, step_name, run, succeeded, failed, retries, failed_since, is_stale)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0)
         ON CONFLICT DO UPDATE SET succeeded = succeeded + ?4, failed = iif(is_stale, 0, failed) + ?5,
             retries = retries + ?6, failed_since = iif(is_stale, ?7, failed_since), is_stale = 0",
    )?
    .execute(params![
        id.0,
        count.run.step.as_str(),
        count.run.run,
        to_i64(count.succeeded),
        to_i64(count.failed),
        to_i64(count.retries),
        to_i64(count.seq.0),
    ])?;
    Ok(())
}

fn write_task(db: &Connection, id: ExecutionId, ends: &TaskEnds) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO loop_task (execution_id, step_name, task_label, run, succeeded_seq, failed_seq)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT DO UPDATE SET succeeded_seq = coalesce(?5, succeeded_seq), failed_seq = coalesce(?6, failed_seq)",
    )?
    .execute(params![
        id.0,
        ends.run.step.as_str(),
        ends.task.as_str(),
        ends.run.run,
        ends.succeeded.map(|seq| to_i64(seq.0)),
        ends.failed.map(|seq| to_i64(seq.0)),
    ])?;
    Ok(())
}

fn write_block(db: &Connection, id: ExecutionId, block: &IterationBlock) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO iteration_index (execution_id, step_name, run, block, seq, iterations, failed)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        id.0,
        block.run.step.as_str(),
        block.run.run,
        to_i64(block.block),
        to_i64(block.seq.0),
        block.iterations.cast_signed(),
        block.failed.cast_signed(),
    ])?;
    Ok(())
}

/// Extends the span that ends just before this one, or adds it.
fn write_span(db: &Connection, id: ExecutionId, span: SeqSpan) -> rusqlite::Result<()> {
    let (first, last) = (to_i64(span.first.0), to_i64(span.last.0));
    let extended = db
        .prepare_cached("UPDATE iteration_span SET seq_last = ?3 WHERE execution_id = ?1 AND seq_last = ?2 - 1")?
        .execute(params![id.0, first, last])?;
    if extended == 0 {
        db.prepare_cached("INSERT INTO iteration_span (execution_id, seq_first, seq_last) VALUES (?1, ?2, ?3)")?
            .execute(params![id.0, first, last])?;
    }
    Ok(())
}

/// Writes the rows of an execution that has none, from its log.
pub(super) fn rebuild(db: &Connection, id: ExecutionId) -> Result<(), ReadError> {
    let mut appends = db.prepare_cached("SELECT seq_first, body FROM log WHERE execution_id = ?1 ORDER BY seq_last")?;
    let mut rows = appends.query([id.0])?;
    let mut reading = LogRowReader::starting_after(id, Seq(0));
    while let Some(row) = rows.next()? {
        let events = queries::read_append(&mut reading, id, row)?;
        write_iterations(db, id, &IterationDelta::from_events(&events))?;
    }
    Ok(())
}

/// Writes the rows of every execution in a store of an earlier version. Of a damaged log, indexes the readable part.
pub(super) fn index_old_logs(db: &Connection) -> rusqlite::Result<()> {
    let mut list = db.prepare("SELECT execution_id FROM execution ORDER BY execution_id")?;
    let ids = list.query_map([], |row| row.get(0))?;
    let ids: Vec<i64> = ids.collect::<rusqlite::Result<_>>()?;
    for id in ids {
        match rebuild(db, ExecutionId(id)) {
            Ok(()) => {}
            Err(ReadError::Sqlite(error)) => return Err(error),
            Err(ReadError::Damaged(error)) => {
                tracing::warn!(execution_id = id, %error, "failed to index the iterations of a damaged log");
            }
        }
    }
    Ok(())
}

pub(super) fn loops(db: &Connection, id: ExecutionId) -> Result<Vec<LoopProgress>, ReadError> {
    const LOOPS: &str = "SELECT step_name, run, succeeded, failed, retries FROM loop_progress
         WHERE execution_id = ?1 ORDER BY step_name, run";
    Ok(query_rows(db, LOOPS, [id.0], read_row)?)
}

pub(super) fn iteration_events(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    iterations: &Range<u64>,
) -> Result<Vec<Event>, ReadError> {
    let mut events = Vec::new();
    let mut last = Seq(0);
    for block in read_index_rows(db, id, run, iterations)? {
        if block.seq > last && block.has_any(iterations) {
            let is_selected = |head: EventHead<'_>| is_of_iterations(head, run, iterations);
            let append = queries::append_containing(db, id, block.seq, is_selected)?;
            last = append.last;
            events.extend(append.events);
        }
    }
    Ok(events)
}

pub(super) fn iteration_outcomes(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    range: &OutcomeRange,
) -> Result<IterationOutcomes, ReadError> {
    let mut collector = OutcomeCollector::new(run, range);
    let mut last = Seq(0);
    for block in read_index_rows(db, id, run, &range.iterations)? {
        if block.seq > last && block.has_any(collector.iterations()) {
            let append = queries::append_containing(db, id, block.seq, |head| collector.is_selected(head))?;
            last = append.last;
            collector.add(append.events);
        }
    }
    Ok(collector.finish())
}

pub(super) fn loop_task(
    db: &Connection,
    id: ExecutionId,
    step: &Name,
    run: Option<u32>,
    task: &Name,
) -> Result<Option<LoopTask>, ReadError> {
    const LATEST: &str = "SELECT run, succeeded_seq, failed_seq FROM loop_task
         WHERE execution_id = ?1 AND step_name = ?2 AND task_label = ?3 AND run BETWEEN ?4 AND ?5
         ORDER BY run DESC LIMIT 1";
    let (first, last) = run.map_or((0, u32::MAX), |run| (run, run));
    let values = params![id.0, step.as_str(), task.as_str(), first, last];
    Ok(query_row(db, LATEST, values, read_row)?)
}

/// The rows of the index for these iterations, by seq.
fn read_index_rows(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    iterations: &Range<u64>,
) -> Result<Vec<IterationBlock>, ReadError> {
    const BLOCKS: &str = "SELECT block, seq, iterations, failed FROM iteration_index
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND block BETWEEN ?4 AND ?5";
    if iterations.is_empty() {
        return Ok(Vec::new());
    }
    let (first, last) = (block_of(iterations.start), block_of(iterations.end - 1));
    let values = params![id.0, run.step.as_str(), run.run, to_i64(first), to_i64(last)];
    let mut blocks = query_rows(db, BLOCKS, values, |row| IterationBlock::read(row, run))?;
    blocks.sort_by_key(|block| block.seq);
    Ok(blocks)
}

pub(super) fn failed_iterations(
    db: &Connection,
    id: ExecutionId,
    run: &StepRunId,
    limit: usize,
) -> Result<Vec<u64>, ReadError> {
    let mut statement = db.prepare_cached(
        "SELECT block, seq, iterations, failed FROM iteration_index INDEXED BY iteration_failed
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND failed <> 0
             AND seq >= (SELECT failed_since FROM loop_progress p
                 WHERE p.execution_id = ?1 AND p.step_name = ?2 AND p.run = ?3)
         ORDER BY block",
    )?;
    let mut rows = statement.query(params![id.0, run.step.as_str(), run.run])?;
    let mut failed = BTreeSet::new();
    while let Some(row) = rows.next()? {
        let block = IterationBlock::read(row, run)?;
        if failed.len() >= limit && failed.last().is_some_and(|last| block_of(*last) < block.block) {
            break;
        }
        failed.extend(block_indices(block.block, block.failed));
    }
    Ok(failed.into_iter().take(limit).collect())
}

pub(super) fn iteration_count(db: &Connection, id: ExecutionId, run: &StepRunId) -> Result<u64, ReadError> {
    const LAST: &str = "SELECT block, seq, iterations, failed FROM iteration_index
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND block = (
             SELECT max(block) FROM iteration_index WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3)";
    let values = params![id.0, run.step.as_str(), run.run];
    let blocks = query_rows(db, LAST, values, |row| IterationBlock::read(row, run))?;
    let recorded = blocks
        .iter()
        .flat_map(|block| block_indices(block.block, block.iterations));
    Ok(recorded.max().map_or(0, |index| index + 1))
}

pub(super) fn outline(db: &Connection, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, ReadError> {
    let mut next_span = db.prepare_cached(
        "SELECT seq_first, seq_last FROM iteration_span
         WHERE execution_id = ?1 AND seq_last > ?2 ORDER BY seq_last LIMIT 1",
    )?;
    let mut appends = db.prepare_cached(
        "SELECT seq_first, body FROM log
         WHERE execution_id = ?1 AND seq_last > ?2 AND seq_last < ?3 ORDER BY seq_last",
    )?;
    let mut events: Vec<Event> = Vec::new();
    let mut position = after;
    loop {
        let mut spans = next_span.query(params![id.0, to_i64(position.0)])?;
        let span = match spans.next()? {
            Some(row) => Some((row.unsigned(0)?, row.unsigned(1)?)),
            None => None,
        };
        let until = span.map_or(i64::MAX, |(first, _)| to_i64(first));
        let mut rows = appends.query(params![id.0, to_i64(position.0), until])?;
        let mut reading = LogRowReader::starting_after(id, position);
        while events.len() < limit
            && let Some(row) = rows.next()?
        {
            let unpacked = queries::read_append(&mut reading, id, row)?;
            let limit_left = limit - events.len();
            let later_events = unpacked.into_iter().filter(|event| event.seq > after);
            events.extend(later_events.take(limit_left));
        }
        match span {
            Some((_, last)) if events.len() < limit => position = Seq(last),
            _ => return Ok(events),
        }
    }
}
