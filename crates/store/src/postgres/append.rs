//! Writes a batch of commits with one statement. Retries if nothing was written; if the connection broke, reads the
//! log to learn the result.
//!
//! If a connection breaks after the statement was sent, the result is unknown. The statement is then sent again: if
//! the first one was written, the second one finds that the versions have moved, and the log shows which commit moved
//! them.

use model::event::unpack;
use model::id::Seq;
use postgres::{QueryError, RETRIES_DURATION_MAX, RETRY_WAITS};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};

use crate::commit::{Commit, CommitStatus};
use crate::error::Error;
use crate::postgres::append_one::{APPEND_ONE, APPEND_ONE_WITH_ITERATIONS, APPEND_ONE_WITH_WAITS, is_written};
use crate::postgres::batch::AppendBatch;
use crate::postgres::clock::monotonic_now;
use crate::postgres::pool::SessionPool;
use crate::postgres::query_error::IntoStoreError as _;
use crate::postgres::rows::to_i64;

const APPEND: &str = "SELECT verdict, detail FROM noetl.append_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47)";

/// The same, with the changes to the tables of iterations and labels.
const APPEND_WITH_ITERATIONS: &str = "WITH written AS MATERIALIZED (SELECT verdict, detail FROM noetl.append_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47))
    SELECT verdict, detail, noetl.write_iterations_and_labels(verdict, $1, $48) FROM written";

/// The same, with the changes to the tables of iterations and of waits.
const APPEND_WITH_WAITS: &str = "WITH written AS MATERIALIZED (SELECT verdict, detail FROM noetl.append_batch(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47))
    SELECT verdict, detail, noetl.write_iterations_and_labels(verdict, $1, $48), noetl.write_waits(verdict, $1, $49) FROM written";

/// The append that starts after a version.
const FIND_APPEND: &str = "SELECT body FROM noetl.log WHERE execution_id = $1 AND seq_first = $2 AND seq_last = $3";

/// The tables that few batches change besides those of every append. Only such batches pay for them.
#[derive(Debug, Clone, Copy)]
enum ExtraChanges {
    /// None.
    None,
    /// Those of iterations.
    Iterations,
    /// Those of waits, and possibly those of iterations.
    Waits,
}

impl ExtraChanges {
    fn of_batch(batch: &AppendBatch) -> Self {
        if !batch.waits.is_empty() {
            Self::Waits
        } else if !batch.iterations.is_empty() {
            Self::Iterations
        } else {
            Self::None
        }
    }

    /// The values of the statement after those of every append.
    fn values<'v>(
        self,
        iterations: &'v (dyn ToSql + Sync),
        waits: &'v (dyn ToSql + Sync),
    ) -> Vec<&'v (dyn ToSql + Sync)> {
        match self {
            Self::None => Vec::new(),
            Self::Iterations => vec![iterations],
            Self::Waits => vec![iterations, waits],
        }
    }

    fn batch_statement(self) -> &'static str {
        match self {
            Self::None => APPEND,
            Self::Iterations => APPEND_WITH_ITERATIONS,
            Self::Waits => APPEND_WITH_WAITS,
        }
    }

    fn single_statement(self) -> &'static str {
        match self {
            Self::None => APPEND_ONE,
            Self::Iterations => APPEND_ONE_WITH_ITERATIONS,
            Self::Waits => APPEND_ONE_WITH_WAITS,
        }
    }
}

/// The result of each commit.
type CommitStatuses = Vec<Result<CommitStatus, Error>>;

/// Writes commits in one transaction. Returns the results in the order of the commits.
pub(super) async fn append(pool: &SessionPool, commits: Vec<Commit>, publishes: bool) -> CommitStatuses {
    let mut results: Vec<Option<Result<CommitStatus, Error>>> = commits.iter().map(|_| None).collect();
    let mut order: Vec<usize> = (0..commits.len()).collect();
    order.sort_by_key(|index| commits[*index].execution);
    let mut batch = AppendBatch::default();
    let mut members = Vec::with_capacity(commits.len());
    for index in order {
        let commit = &commits[index];
        match commit.check().and_then(|()| batch.add(commit)) {
            Ok(()) => members.push(index),
            Err(error) => results[index] = Some(Err(error)),
        }
    }
    if !members.is_empty() {
        let batch_commits: Vec<&Commit> = members.iter().map(|index| &commits[*index]).collect();
        let written = write_or_split(pool, &batch, &batch_commits, publishes).await;
        for (index, result) in members.into_iter().zip(written) {
            results[index] = Some(result);
        }
    }
    let results_in_order = results.into_iter();
    results_in_order
        .map(|result| result.expect("each commit has a result"))
        .collect()
}

/// If the database refuses a batch permanently, writes the commits one by one, so that one does not fail the others.
async fn write_or_split(
    pool: &SessionPool,
    batch: &AppendBatch,
    commits: &[&Commit],
    publishes: bool,
) -> CommitStatuses {
    match write(pool, batch, commits, publishes).await {
        Ok(results) => results,
        Err(QueryError::Permanent(_)) if commits.len() > 1 => {
            let mut results = Vec::with_capacity(commits.len());
            for commit in commits {
                let mut alone = AppendBatch::default();
                results.push(match alone.add(commit) {
                    Ok(()) => match write(pool, &alone, &[commit], publishes).await {
                        Ok(mut result) => result.pop().expect("a batch of one commit has one result"),
                        Err(query_error) => Err(query_error.into_store_error(pool.target())),
                    },
                    Err(error) => Err(error),
                });
            }
            results
        }
        Err(query_error) => fail_all(commits, pool, query_error),
    }
}

/// Sends the batch until its result is known, or the database remains unavailable.
async fn write(
    pool: &SessionPool,
    batch: &AppendBatch,
    commits: &[&Commit],
    publishes: bool,
) -> Result<CommitStatuses, QueryError> {
    let rare = batch.json_params();
    let iterations = Json(&batch.iterations);
    let wait_changes = Json(&batch.waits);
    let changes = ExtraChanges::of_batch(batch);
    let mut waits = RETRY_WAITS.iter();
    let mut is_unknown = false;
    if let Some(mut values) = batch.single_commit_values(&rare, &publishes) {
        values.extend(changes.values(&iterations, &wait_changes));
        match pool.query_once(changes.single_statement(), &values).await {
            Ok(rows) if is_written(&rows) => return Ok(vec![Ok(CommitStatus::Committed)]),
            Ok(_) => {}
            Err(error) => is_unknown = error.breaks_connection(),
        }
    }
    let mut values = batch.values(&rare, &publishes);
    values.extend(changes.values(&iterations, &wait_changes));
    let started_at = monotonic_now();
    loop {
        let error = match pool.query_once(changes.batch_statement(), &values).await {
            Ok(rows) => {
                let verdicts = read_statuses(&rows, batch)?;
                if verdicts.len() != commits.len() {
                    return Err(QueryError::BadRow("the database returned too few verdicts".into()));
                }
                return Ok(if is_unknown {
                    confirm_refusals(pool, commits, verdicts).await
                } else {
                    verdicts
                });
            }
            Err(error) => error,
        };
        is_unknown |= error.breaks_connection();
        let may_help = error.is_transient() || error.breaks_connection();
        match waits.next() {
            Some(wait) if may_help && started_at.elapsed() < RETRIES_DURATION_MAX => {
                tokio::time::sleep(*wait).await;
            }
            _ => return Err(error),
        }
    }
}

/// Returns the same error for each commit.
fn fail_all(commits: &[&Commit], pool: &SessionPool, query_error: QueryError) -> CommitStatuses {
    let target = pool.target();
    let error = query_error.into_store_error(target);
    tracing::warn!(%error, commits = commits.len(), "failed to write a batch of commits");
    let (text, mut first) = (crate::error::error_chain(&error), Some(error));
    let mut next_error = || first.take().unwrap_or_else(|| Error::Unavailable(text.clone().into()));
    commits.iter().map(|_| Err(next_error())).collect()
}

fn read_statuses(rows: &[Row], batch: &AppendBatch) -> Result<CommitStatuses, QueryError> {
    let row = rows
        .first()
        .ok_or_else(|| QueryError::BadRow("the database returned no verdict".into()))?;
    let verdicts: Vec<i32> = row.try_get(0)?;
    let details: Vec<i64> = row.try_get(1)?;
    let verdict_details = verdicts.into_iter().zip(details);
    Ok(verdict_details
        .map(|(verdict, detail)| match verdict {
            0 => Ok(CommitStatus::Committed),
            1 => Ok(CommitStatus::VersionConflict {
                version: Seq(u64::try_from(detail).unwrap_or(0)),
            }),
            2 => Ok(CommitStatus::Fenced),
            _ => Err(match batch.conflicting_key(verdict, detail) {
                Some(key) => Error::Invariant(key),
                None => Error::Unavailable("the database returned an unknown verdict".into()),
            }),
        })
        .collect())
}

/// Resolves an unknown result: a commit that is refused now may already be in the log.
async fn confirm_refusals(pool: &SessionPool, commits: &[&Commit], verdicts: CommitStatuses) -> CommitStatuses {
    let mut settled = Vec::with_capacity(verdicts.len());
    for (commit, verdict) in commits.iter().zip(verdicts) {
        settled.push(match verdict {
            Ok(CommitStatus::Committed) => Ok(CommitStatus::Committed),
            // Without events, the commit cannot be recognized: the caller has to load again.
            _ if commit.events.is_empty() => Err(Error::Unavailable(
                "the result of a commit without events is unknown".into(),
            )),
            refused => match is_recorded(pool, commit).await {
                Ok(true) => Ok(CommitStatus::Committed),
                Ok(false) => refused,
                Err(error) => Err(error.into_store_error(pool.target())),
            },
        });
    }
    settled
}

async fn is_recorded(pool: &SessionPool, commit: &Commit) -> Result<bool, QueryError> {
    let first = to_i64(commit.expected.next().0);
    let last = to_i64(commit.version().0);
    let rows = pool
        .query_once(FIND_APPEND, &[&commit.execution.0, &first, &last])
        .await?;
    let Some(row) = rows.first() else {
        return Ok(false);
    };
    let body: &str = row.try_get(0)?;
    let recorded =
        unpack(commit.execution, commit.expected.next(), body).map_err(|error| QueryError::BadRow(error.into()))?;
    let ids = |events: &[model::event::Event]| events.first().map(|event| event.event_id);
    Ok(ids(&recorded) == ids(&commit.events))
}
