//! Verification: reads every playbook and every log, and compares every execution's row with its log.

use model::id::{ExecutionId, Seq};

use crate::Store;
use crate::error::{Error, error_chain};
use crate::execution_filter::ExecutionFilter;
use crate::projections::ProjectionDelta;
use crate::rows::ExecutionRow;

/// Number of rows or events that one query reads.
const PAGE_SIZE: usize = 1_000;

/// Data that was modified or is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The execution it belongs to, if any.
    pub execution: Option<ExecutionId>,
    /// The finding.
    pub description: String,
}

/// The result of verifying a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Number of executions read.
    pub executions: u64,
    /// Number of events read.
    pub events: u64,
    /// The damage found.
    pub damages: Vec<Damage>,
}

impl VerifyReport {
    /// Records damage that a read reports; other errors end the verification.
    fn record_damage<T>(&mut self, execution: Option<ExecutionId>, read: Result<T, Error>) -> Result<Option<T>, Error> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(Error::Corrupt { source, .. }) => {
                let message = error_chain(&*source);
                self.damages.push(Damage {
                    execution,
                    description: message,
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

pub(crate) async fn verify<S: Store + ?Sized>(store: &S) -> Result<VerifyReport, Error> {
    let mut report = VerifyReport::default();
    let files = store.damaged_files().await;
    let files = report.record_damage(None, files)?;
    report.damages.extend(files.unwrap_or_default());
    report.record_damage(None, store.catalog().await)?;
    let mut filter = ExecutionFilter {
        limit: PAGE_SIZE,
        ..ExecutionFilter::default()
    };
    loop {
        let rows = store.executions(&filter).await;
        let rows = report.record_damage(None, rows)?.unwrap_or_default();
        let Some(last) = rows.last() else { break };
        filter.before = Some(last.id);
        for row in rows {
            report.executions += 1;
            verify_execution(store, &mut report, &row).await?;
        }
    }
    Ok(report)
}

async fn verify_execution<S: Store + ?Sized>(
    store: &S,
    report: &mut VerifyReport,
    row: &ExecutionRow,
) -> Result<(), Error> {
    let mut rebuilt: Option<ExecutionRow> = None;
    let mut last = Seq(0);
    while last < row.version {
        let read = store.events(row.id, last, PAGE_SIZE).await;
        let Some(mut events) = report.record_damage(Some(row.id), read)? else {
            return Ok(());
        };
        // Events appended since the row was read are ignored.
        events.retain(|event| event.seq <= row.version);
        let Some(end) = events.last() else { break };
        last = end.seq;
        report.events += events.len() as u64;
        ExecutionRow::rebuild(&mut rebuilt, row, &events, &ProjectionDelta::from_events(&events));
    }
    if rebuilt.as_ref() != Some(row) {
        report.damages.push(Damage {
            execution: Some(row.id),
            description: "the row in `execution` does not match the log".to_owned(),
        });
    }
    Ok(())
}
