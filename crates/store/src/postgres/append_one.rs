//! The commit of one execution that closes at most one command and issues at most one.
//!
//! Most commits are of this form: those of a step, and the first and last of an execution. `noetl.append_one` writes
//! it without reading first. If it refuses the commit, nothing is written, and the general statement determines the
//! reason.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::postgres::batch::{AppendBatch, JsonParams};

pub(super) const APPEND_ONE: &str = "SELECT noetl.append_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26)";

/// The same, with the changes to the tables of iterations and labels.
pub(super) const APPEND_ONE_WITH_ITERATIONS: &str = "WITH written AS MATERIALIZED (SELECT noetl.append_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26) AS is_written)
    SELECT is_written, noetl.write_iterations_and_labels(ARRAY[(NOT is_written)::integer], ARRAY[$1::bigint], $27) FROM written";

/// The same, with the changes to the tables of iterations and of waits.
pub(super) const APPEND_ONE_WITH_WAITS: &str = "WITH written AS MATERIALIZED (SELECT noetl.append_one(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26) AS is_written)
    SELECT is_written, noetl.write_iterations_and_labels(ARRAY[(NOT is_written)::integer], ARRAY[$1::bigint], $27),
        noetl.write_waits(ARRAY[(NOT is_written)::integer], ARRAY[$1::bigint], $28) FROM written";

/// Maximum number of keys and steps that are written one by one; more are faster in bulk.
const SINGLE_ROWS_MAX: usize = 4;

impl AppendBatch {
    /// The values of `noetl.append_one`, if this batch is such a commit.
    pub(super) fn single_commit_values<'b>(
        &'b self,
        rare: &'b JsonParams<'b>,
        publishes: &'b bool,
    ) -> Option<Vec<&'b (dyn ToSql + Sync)>> {
        let Self {
            members,
            fences,
            closes,
            issues,
            keys,
            steps,
            ..
        } = self;
        let is_single = members.id.len() == 1
            && members.body[0].is_some()
            && self.changes_only_its_execution()
            && fences.1.len() <= 1
            && fences.1 == closes.1
            && issues.seq.len() <= 1
            && keys.text.len() <= SINGLE_ROWS_MAX
            && keys.seq.iter().all(Option::is_none)
            && steps.name.len() <= SINGLE_ROWS_MAX
            && steps.aggregate.iter().all(Option::is_none);
        is_single.then(|| -> Vec<&'b (dyn ToSql + Sync)> {
            vec![
                &members.id[0],
                &members.expected[0],
                &members.version[0],
                &members.types[0],
                &members.body[0],
                &members.sets_current[0],
                &members.current[0],
                &rare.patches,
                &rare.created,
                first_value(&fences.1, &None::<i64>),
                first_value(&fences.2, &None::<i32>),
                first_value(&issues.seq, &None::<i64>),
                first_value(&issues.unit, &None::<&str>),
                first_value(&issues.pool, &None::<&str>),
                first_value(&issues.worker, &None::<&str>),
                first_value(&issues.epoch, &None::<i32>),
                first_value(&issues.start_by, &None::<i64>),
                first_value(&issues.kinds, &None::<&str>),
                first_value(&issues.body, &None::<&str>),
                &keys.text,
                &steps.name,
                &steps.run,
                &steps.status,
                &steps.last,
                &steps.seq,
                publishes,
            ]
        })
    }
}

/// The only value of a column, or `none`.
fn first_value<'b, T: ToSql + Sync>(column: &'b [T], none: &'static (dyn ToSql + Sync)) -> &'b (dyn ToSql + Sync) {
    column.first().map_or(none, |value| value)
}

/// Whether the statement wrote the commit; otherwise it changed nothing.
pub(super) fn is_written(rows: &[Row]) -> bool {
    let row = rows.first();
    row.and_then(|row| row.try_get(0).ok()).unwrap_or(false)
}
