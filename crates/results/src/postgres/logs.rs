//! Task logs in the database that several servers share.

use std::sync::Arc;

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::LogLine;
use tokio_postgres::types::Type;

use super::pool::StatementPool;
use crate::logs::{LOG_BYTES_MAX, LOG_FULL_MESSAGE};
use crate::{Error, LogPage, LogPosition, LogQuery, StoredLine, TaskLogs};

/// The lock on the execution's row is held until the lines are committed, so lines become visible in order.
const APPEND_LINES: &str = "WITH head AS (INSERT INTO noetl.task_log AS h (execution_id, last, bytes) \
        VALUES ($1, $5, $6) ON CONFLICT (execution_id) DO UPDATE \
        SET last = h.last + excluded.last, bytes = h.bytes + excluded.bytes WHERE h.bytes < $7 \
        RETURNING last, bytes), \
    taken AS (INSERT INTO noetl.task_log_line (execution_id, n, step, task, line) \
        SELECT $1, head.last - $5 + l.place, l.step, l.task, l.line \
        FROM head, unnest($2, $3, $4) WITH ORDINALITY AS l (step, task, line, place)) \
    SELECT bytes FROM head";

/// Maximum number of lines read at a time; filters on the text of a line are applied to the lines that were read.
const LINES_READ_MAX: usize = 10_000;

const SELECT_LINES: &str = "SELECT n, line FROM noetl.task_log_line WHERE execution_id = $1 AND n > $2 \
    AND ($4 IS NULL OR step = $4) AND ($5 IS NULL OR task = $5) ORDER BY n LIMIT $3";

const SELECT_LINES_BEFORE: &str = "SELECT n, line FROM noetl.task_log_line WHERE execution_id = $1 AND n < $2 \
    AND ($4 IS NULL OR step = $4) AND ($5 IS NULL OR task = $5) ORDER BY n DESC LIMIT $3";

/// Task logs in Postgres.
#[derive(Clone)]
pub struct PostgresLogs {
    pub(super) pool: Arc<StatementPool>,
}

impl PostgresLogs {
    /// Appends lines of one execution; returns the size of its log and of the lines, or `None` if the log was already
    /// full.
    async fn append_lines(&self, lines: &[LogLine], bytes_max: i64) -> Result<Option<(i64, i64)>, Error> {
        let Some(first) = lines.first() else {
            return Ok(None);
        };
        let execution = first.execution.0;
        let texts: Vec<String> = lines.iter().map(to_json).collect();
        let steps: Vec<&str> = lines.iter().map(|line| line.step.as_str()).collect();
        let tasks: Vec<&str> = lines.iter().map(|line| line.task.as_str()).collect();
        let count = saturating_i64(lines.len());
        let added_bytes = saturating_i64(texts.iter().map(String::len).sum());
        let values = [
            (&execution as _, Type::INT8),
            (&steps as _, Type::TEXT_ARRAY),
            (&tasks as _, Type::TEXT_ARRAY),
            (&texts as _, Type::TEXT_ARRAY),
            (&count as _, Type::INT8),
            (&added_bytes as _, Type::INT8),
            (&bytes_max as _, Type::INT8),
        ];
        let rows = self.pool.query(APPEND_LINES, &values).await?;
        Ok(rows.first().map(|row| (row.get(0), added_bytes)))
    }

    /// Runs a statement that selects lines of the step and the task of a query; also returns whether there may be more.
    async fn select_lines(
        &self,
        statement: &str,
        execution: ExecutionId,
        position: i64,
        query: &LogQuery,
    ) -> Result<(Vec<(u64, Option<LogLine>)>, bool), Error> {
        let rows_max = query.limit.clamp(1, LINES_READ_MAX);
        let (step, task) = (
            query.step.as_ref().map(Name::as_str),
            query.task.as_ref().map(Name::as_str),
        );
        let values = [
            (&execution.0 as _, Type::INT8),
            (&position as _, Type::INT8),
            (&saturating_i64(rows_max) as _, Type::INT8),
            (&step as _, Type::TEXT),
            (&task as _, Type::TEXT),
        ];
        let rows = self.pool.query(statement, &values).await?;
        let lines = rows.iter().map(|row| {
            let position = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
            (position, serde_json::from_str(row.get(1)).ok())
        });
        Ok((lines.collect(), rows.len() == rows_max))
    }

    async fn read_forward(&self, execution: ExecutionId, query: &LogQuery, after: u64) -> Result<LogPage, Error> {
        let mut page = LogPage::after(after);
        loop {
            let after = i64::try_from(page.next_after).unwrap_or(i64::MAX);
            let (lines, has_more) = self.select_lines(SELECT_LINES, execution, after, query).await?;
            for (position, line) in lines {
                if page.lines.len() >= query.limit {
                    return Ok(page);
                }
                page.next_after = position;
                page.lines.extend(to_stored_line(position, line, query));
            }
            if !has_more || page.lines.len() >= query.limit {
                return Ok(page);
            }
        }
    }

    async fn read_backward(
        &self,
        execution: ExecutionId,
        query: &LogQuery,
        before: Option<u64>,
    ) -> Result<LogPage, Error> {
        let mut position = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
        let mut newest_first = Vec::new();
        loop {
            let (lines, has_more) = self
                .select_lines(SELECT_LINES_BEFORE, execution, position, query)
                .await?;
            for (line_position, line) in lines {
                if newest_first.len() >= query.limit {
                    return Ok(LogPage::from_newest(newest_first, before, true));
                }
                position = i64::try_from(line_position).unwrap_or(0);
                newest_first.extend(to_stored_line(line_position, line, query));
            }
            if !has_more || newest_first.len() >= query.limit {
                return Ok(LogPage::from_newest(newest_first, before, has_more));
            }
        }
    }
}

/// The line at a position, if it can be read and matches.
fn to_stored_line(position: u64, line: Option<LogLine>, query: &LogQuery) -> Option<StoredLine> {
    let line = line.filter(|line| query.matches(line))?;
    Some(StoredLine { position, line })
}

fn to_json(line: &LogLine) -> String {
    serde_json::to_string(line).expect("a log line serializes to JSON")
}

fn saturating_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[async_trait]
impl TaskLogs for PostgresLogs {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        let bytes_max = i64::try_from(LOG_BYTES_MAX).unwrap_or(i64::MAX);
        for lines in lines.chunk_by(|first, second| first.execution == second.execution) {
            let appended = self.append_lines(lines, bytes_max).await?;
            let is_last =
                appended.is_some_and(|(bytes, added)| bytes >= bytes_max && bytes.saturating_sub(added) < bytes_max);
            if let (true, Some(line)) = (is_last, lines.last()) {
                self.append_lines(&[line.annotation(LOG_FULL_MESSAGE.to_owned())], i64::MAX)
                    .await?;
            }
        }
        Ok(())
    }

    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error> {
        match query.position {
            LogPosition::After(after) => self.read_forward(execution, query, after).await,
            LogPosition::Before(before) => self.read_backward(execution, query, Some(before)).await,
            LogPosition::End => self.read_backward(execution, query, None).await,
        }
    }
}
