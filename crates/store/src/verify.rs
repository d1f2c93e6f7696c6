//! Verification: reads every playbook and every log, and compares every execution's row with its log.

use model::event::Body;
use model::id::{ExecutionId, Seq};

use crate::Store;
use crate::commit::Creation;
use crate::error::{Error, chain};
use crate::projections::Delta;
use crate::rows::{ExecutionRow, Filter};

/// Number of rows and events read at a time.
const PAGE: usize = 1_000;

/// Data that was modified or is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The execution it belongs to, if any.
    pub execution: Option<ExecutionId>,
    /// The finding.
    pub what: String,
}

/// The result of verifying a store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of executions read.
    pub executions: u64,
    /// Number of events read.
    pub events: u64,
    /// The damage found.
    pub damages: Vec<Damage>,
}

impl Verified {
    /// Records damage that a read reports; other errors end the verification.
    fn note<T>(
        &mut self,
        execution: Option<ExecutionId>,
        read: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match read {
            Ok(found) => Ok(Some(found)),
            Err(Error::Corrupt { source, .. }) => {
                let what = chain(&*source);
                self.damages.push(Damage { execution, what });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

pub(crate) async fn verify<S: Store + ?Sized>(store: &S) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let files = store.damaged_files().await;
    let files = verified.note(None, files)?;
    verified.damages.extend(files.unwrap_or_default());
    verified.note(None, store.catalog().await)?;
    let mut filter = Filter {
        limit: PAGE,
        ..Filter::default()
    };
    loop {
        let rows = store.executions(&filter).await;
        let rows = verified.note(None, rows)?.unwrap_or_default();
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
    verified: &mut Verified,
    row: &ExecutionRow,
) -> Result<(), Error> {
    let mut folded: Option<ExecutionRow> = None;
    let mut last = Seq(0);
    while last < row.version {
        let read = store.events(row.id, last, PAGE).await;
        let Some(mut events) = verified.note(Some(row.id), read)? else {
            return Ok(());
        };
        // Events appended since the row was read are ignored.
        events.retain(|event| event.seq <= row.version);
        let Some(end) = events.last() else { break };
        last = end.seq;
        verified.events += events.len() as u64;
        if let (None, Body::ExecutionRequested(request)) = (&folded, &events[0].body) {
            let creation = Creation {
                name: Some(row.name.clone()),
                owner: row.owner.clone(),
            };
            folded = Some(ExecutionRow::new(&events[0], request, &creation));
        }
        if let Some(folded) = &mut folded {
            folded.apply(&Delta::of(&events), last);
        }
    }
    if folded.as_ref() != Some(row) {
        verified.damages.push(Damage {
            execution: Some(row.id),
            what: "the row in `execution` does not match the log".to_owned(),
        });
    }
    Ok(())
}
