//! Verification: reads every playbook and every log, and compares every execution's row with its log.

use model::event::EventBody;
use model::id::{ExecutionId, Seq};

use crate::Store;
use crate::commit::ExecutionCreation;
use crate::error::{Error, error_chain};
use crate::execution_filter::ExecutionFilter;
use crate::projections::ProjectionDelta;
use crate::rows::ExecutionRow;

/// Number of rows and events read at a time.
const PAGE: usize = 1_000;

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
    let mut verified = VerifyReport::default();
    let files = store.damaged_files().await;
    let files = verified.record_damage(None, files)?;
    verified.damages.extend(files.unwrap_or_default());
    verified.record_damage(None, store.catalog().await)?;
    let mut filter = ExecutionFilter {
        limit: PAGE,
        ..ExecutionFilter::default()
    };
    loop {
        let rows = store.executions(&filter).await;
        let rows = verified.record_damage(None, rows)?.unwrap_or_default();
        let Some(last) = rows.last() else { break };
        filter.before = Some(last.id);
        for row in rows {
            verified.executions += 1;
            verify_run(store, &mut verified, &row).await?;
        }
    }
    Ok(verified)
}

async fn verify_run<S: Store + ?Sized>(
    store: &S,
    verified: &mut VerifyReport,
    row: &ExecutionRow,
) -> Result<(), Error> {
    let mut folded: Option<ExecutionRow> = None;
    let mut last = Seq(0);
    while last < row.version {
        let read = store.events(row.id, last, PAGE).await;
        let Some(mut events) = verified.record_damage(Some(row.id), read)? else {
            return Ok(());
        };
        // Events appended since the row was read are ignored.
        events.retain(|event| event.seq <= row.version);
        let Some(end) = events.last() else { break };
        last = end.seq;
        verified.events += events.len() as u64;
        if let (None, EventBody::ExecutionRequested(request)) = (&folded, &events[0].body) {
            let creation = ExecutionCreation {
                name: Some(row.name.clone()),
                owner: row.owner.clone(),
            };
            folded = Some(ExecutionRow::new(&events[0], request, &creation));
        }
        if let Some(folded) = &mut folded {
            folded.apply(&ProjectionDelta::from_events(&events), last);
        }
    }
    if folded.as_ref() != Some(row) {
        verified.damages.push(Damage {
            execution: Some(row.id),
            description: "the row in `execution` does not match the log".to_owned(),
        });
    }
    Ok(())
}
