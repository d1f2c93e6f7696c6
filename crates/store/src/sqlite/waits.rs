//! Rows of `pending_wait` and `early_signal`: written with the appends that change them, and read.

use model::event::Event;
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::raw::RawJson;
use rusqlite::{Connection, params};

use crate::columns::Columns as _;
use crate::damage::LogRowReader;
use crate::pending_waits::WaitChange;
use crate::rows::{PendingSignalWait, WaitEntry};
use crate::sqlite::queries::{self, ReadError, list_values};
use crate::sqlite::rows::{query_row, query_rows, read_row, to_i64};
use crate::wait_filter::{WaitFilter, wait_count_statement, wait_statement};

/// Writes the changes of one append.
pub(super) fn write_waits(db: &Connection, id: ExecutionId, changes: &[WaitChange]) -> rusqlite::Result<()> {
    for change in changes {
        match change {
            WaitChange::Begin(wait) => begin(db, wait)?,
            WaitChange::Signal { name, seq } => receive(db, id, name, *seq)?,
            WaitChange::EndPipeline { run, iteration } => end_pipeline(db, id, run, *iteration)?,
            WaitChange::EndRun { run } => {
                db.prepare_cached("DELETE FROM pending_wait WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3")?
                    .execute(params![id.0, run.step.as_str(), run.run])?;
            }
            WaitChange::EndAll => {
                db.prepare_cached("DELETE FROM pending_wait WHERE execution_id = ?1")?
                    .execute([id.0])?;
            }
        }
    }
    Ok(())
}

/// Takes the oldest stored signal, or adds the wait.
fn begin(db: &Connection, wait: &PendingSignalWait) -> rusqlite::Result<()> {
    let removed_signals = db
        .prepare_cached(
            "DELETE FROM early_signal WHERE execution_id = ?1 AND signal = ?2 AND seq = (
                 SELECT min(o.seq) FROM early_signal o WHERE o.execution_id = ?1 AND o.signal = ?2)",
        )?
        .execute(params![wait.execution.0, wait.signal.as_str()])?;
    if removed_signals > 0 {
        return Ok(());
    }
    end_pipeline(db, wait.execution, &wait.run, wait.iteration)?;
    db.prepare_cached(
        "INSERT INTO pending_wait (execution_id, signal, seq, step_name, run, task_label, iteration, since, deadline,
             approval)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        wait.execution.0,
        wait.signal.as_str(),
        to_i64(wait.seq.0),
        wait.run.step.as_str(),
        wait.run.run,
        wait.task.as_ref().map(Name::as_str),
        wait.iteration.map(to_i64),
        wait.since.0,
        wait.deadline.map(|deadline| deadline.0),
        wait.approval.as_ref().map(RawJson::text),
    ])?;
    Ok(())
}

/// Ends the oldest wait for a signal, or stores the signal.
fn receive(db: &Connection, id: ExecutionId, name: &Name, seq: Seq) -> rusqlite::Result<()> {
    let ended = db
        .prepare_cached(
            "DELETE FROM pending_wait WHERE execution_id = ?1 AND signal = ?2 AND seq = (
                 SELECT min(o.seq) FROM pending_wait o WHERE o.execution_id = ?1 AND o.signal = ?2)",
        )?
        .execute(params![id.0, name.as_str()])?;
    if ended == 0 {
        db.prepare_cached("INSERT INTO early_signal (execution_id, signal, seq) VALUES (?1, ?2, ?3)")?
            .execute(params![id.0, name.as_str(), to_i64(seq.0)])?;
    }
    Ok(())
}

fn end_pipeline(db: &Connection, id: ExecutionId, run: &StepRunId, iteration: Option<u64>) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM pending_wait
         WHERE execution_id = ?1 AND step_name = ?2 AND run = ?3 AND coalesce(iteration, -1) = ?4",
    )?
    .execute(params![id.0, run.step.as_str(), run.run, iteration.map_or(-1, to_i64)])?;
    Ok(())
}

/// Lists what waits in a store of an earlier version: in executions that are active or can be retried. Of a damaged log,
/// reads the readable part.
pub(super) fn list_old_waits(db: &Connection) -> rusqlite::Result<()> {
    let unfinished = "SELECT execution_id FROM execution WHERE status <> 'COMPLETED' ORDER BY execution_id";
    let ids: Vec<i64> = query_rows(db, unfinished, [], |row| row.get(0))?;
    for id in ids {
        match list_waits_of(db, ExecutionId(id)) {
            Ok(()) => {}
            Err(ReadError::Sqlite(error)) => return Err(error),
            Err(ReadError::Damaged(error)) => {
                tracing::warn!(execution_id = id, %error, "failed to list the waits of a damaged log");
            }
        }
    }
    Ok(())
}

fn list_waits_of(db: &Connection, id: ExecutionId) -> Result<(), ReadError> {
    let mut appends = db.prepare_cached("SELECT seq_first, body FROM log WHERE execution_id = ?1 ORDER BY seq_last")?;
    let mut rows = appends.query([id.0])?;
    let mut reading = LogRowReader::starting_after(id, Seq(0));
    while let Some(row) = rows.next()? {
        let events: Vec<Event> = queries::read_append(&mut reading, id, row)?;
        let changes: Vec<WaitChange> = events.iter().filter_map(WaitChange::of_event).collect();
        write_waits(db, id, &changes)?;
    }
    Ok(())
}

pub(super) fn waits(db: &Connection, filter: &WaitFilter) -> Result<Vec<WaitEntry>, ReadError> {
    let statement = wait_statement(filter, "", '?');
    Ok(query_rows(db, &statement.sql, list_values(&statement), read_row)?)
}

pub(super) fn wait_count(db: &Connection, filter: &WaitFilter) -> Result<u64, ReadError> {
    let statement = wait_count_statement(filter, "", '?');
    let count = query_row(db, &statement.sql, list_values(&statement), |row| row.unsigned(0))?;
    Ok(count.unwrap_or(0))
}

pub(super) fn awaited_signals(db: &Connection, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, ReadError> {
    const FIRST: &str = "SELECT min(signal) FROM pending_wait WHERE execution_id = ?1";
    let mut signals = Vec::new();
    for id in ids {
        let signal = query_row(db, FIRST, [id.0], |row| row.optional_name(0))?.flatten();
        signals.extend(signal.map(|signal| (*id, signal)));
    }
    Ok(signals)
}
