//! The commit of a plain step: one execution moves on, one command is done, the next is issued.
//!
//! Most commits of a chain are this. `noetl.append_plain` writes it without looking first: what does not fit is refused
//! whole, and the statement for every commit then finds out why.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::postgres::batch::Batch;

pub(super) const APPEND_PLAIN: &str = "SELECT noetl.append_plain(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24)";

/// So many keys and steps are written one by one; more are quicker all at once.
const FEW: usize = 4;

impl Batch {
    /// The values of `noetl.append_plain`, if this batch is the commit of a plain step.
    pub(super) fn plain<'b>(&'b self, publishes: &'b bool) -> Option<Vec<&'b (dyn ToSql + Sync)>> {
        let Self {
            members,
            fences,
            closes,
            issues,
            keys,
            steps,
            ..
        } = self;
        let is_plain = members.id.len() == 1
            && members.body[0].is_some()
            && self.has_nothing_rare()
            && fences.1.len() == 1
            && fences.1 == closes.1
            && issues.seq.len() == 1
            && keys.text.len() <= FEW
            && keys.seq.iter().all(Option::is_none)
            && steps.name.len() <= FEW
            && steps.aggregate.iter().all(Option::is_none);
        is_plain.then(|| -> Vec<&'b (dyn ToSql + Sync)> {
            vec![
                &members.id[0],
                &members.expected[0],
                &members.version[0],
                &members.types[0],
                &members.body[0],
                &members.sets_current[0],
                &members.current[0],
                &fences.1[0],
                &fences.2[0],
                &issues.seq[0],
                &issues.unit[0],
                &issues.pool[0],
                &issues.worker[0],
                &issues.epoch[0],
                &issues.start_by[0],
                &issues.kinds[0],
                &issues.body[0],
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

/// Whether the statement wrote; otherwise it changed nothing.
pub(super) fn is_written(rows: &[Row]) -> bool {
    let row = rows.first();
    row.and_then(|row| row.try_get(0).ok()).unwrap_or(false)
}
