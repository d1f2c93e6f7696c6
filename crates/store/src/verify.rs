//! Verification: every playbook and every log is read, and every run's row compared with what its log comes to.

use model::event::Body;
use model::id::{ExecutionId, Seq};

use crate::Store;
use crate::commit::Creation;
use crate::error::{Error, chain};
use crate::projections::Delta;
use crate::rows::{ExecutionRow, Filter};

/// Rows and events that are read at a time.
const PAGE: usize = 1_000;

/// Something that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The run it belongs to, where it belongs to one.
    pub execution: Option<ExecutionId>,
    /// What was found.
    pub what: String,
}

/// What verifying a store came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Runs that were read.
    pub executions: u64,
    /// Events that were read.
    pub events: u64,
    /// What is damaged.
    pub damages: Vec<Damage>,
}

impl Verified {
    /// Notes damage that a read reports; other errors end the verification.
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
        // What was appended since the row was read is left for the next time.
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
            what: "its row differs from what its log comes to".to_owned(),
        });
    }
    Ok(())
}
