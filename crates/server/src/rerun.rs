//! Rerun: a run that has ended is done again, as a new run, from its beginning or from the middle.

use engine::{Cut, Refusal, Reuse};
use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::status::RunStatus;
use store::ExecutionRow;

use crate::Server;
use crate::error::Error;
use crate::playbooks::Registered;
use crate::submit::{Start, SubmitError};

/// How many events are read at once from the log of the run that is done again.
const PAGE: usize = 5_000;

/// How a run is done again.
#[derive(Debug, Clone, Default)]
pub struct Rerun {
    /// The first step that runs again; what ran before it is taken over. Everything runs again if none.
    pub from_step: Option<Name>,
    /// The first iteration of that step's loop that runs again.
    pub from_iteration: Option<u64>,
    /// Inputs over those of the first run.
    pub payload: Option<Raw>,
    /// Another version of the playbook.
    pub version: Option<u32>,
}

impl Server {
    /// Does a run again, as a new run; when this returns it is durable.
    pub async fn rerun(&self, id: ExecutionId, rerun: Rerun) -> Result<ExecutionId, SubmitError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let row = row.ok_or(Error::NotFound(id))?;
        if matches!(row.status, RunStatus::Running | RunStatus::Paused) {
            return Err(Refusal::StillRuns.into());
        }
        let version = rerun.version.unwrap_or(row.playbook_version);
        let registered = self.version_of(&row, version).await?;
        let unknown = |step: &&Name| registered.net.playbook.step(step.as_str()).is_none();
        if let Some(step) = rerun.from_step.as_ref().filter(unknown) {
            return Err(Refusal::StepUnknown(step.clone()).into());
        }
        let cut = Cut::before(rerun.from_step, rerun.from_iteration);
        let reuse = self.plan(id, cut).await?;
        reuse.must_suit(&registered.net)?;
        let execution = self.fresh_id();
        let start = Start {
            execution,
            payload: rerun.payload,
            parent: None,
            depth: 0,
            trace_id: None,
            consumed: None,
            reuse: Some(Box::new(reuse)),
        };
        start.run(&self.shared, registered).await?;
        Ok(execution)
    }

    /// Reads as much of the log as the cut takes.
    async fn plan(&self, id: ExecutionId, mut cut: Cut) -> Result<Reuse, SubmitError> {
        let mut after = Seq(0);
        while !cut.is_complete() {
            let page = self.shared.store.events(id, after, PAGE).await;
            let page = page.map_err(Error::from)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in &page {
                cut.read(event);
            }
        }
        Ok(cut.plan()?)
    }

    /// A version of an execution's playbook.
    pub(crate) async fn version_of(
        &self,
        row: &ExecutionRow,
        version: u32,
    ) -> Result<Registered, Error> {
        self.shared.playbooks.version_of(row, version).await
    }
}
