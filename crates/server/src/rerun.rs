//! Rerun: starts a new execution from one that has ended, from its beginning or from a step.

use engine::{Refusal, ReusePlan, ReusePlanner};
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use store::ExecutionRow;
use wire::api::RerunRequest;

use crate::Server;
use crate::error::Error;
use crate::playbooks::RegisteredPlaybook;
use crate::submit::{ExecutionStart, SubmitError};

/// Page size when the log of the original execution is read.
const PAGE: usize = 5_000;

/// A rerun that can be started.
pub(crate) struct PreparedRerun {
    /// The original execution.
    pub(crate) original: ExecutionRow,
    /// The version that it uses.
    pub(crate) registered: RegisteredPlaybook,
    pub(crate) start: ExecutionStart,
}

impl Server {
    /// Starts the new execution, with the labels of the original one; it is durable when this returns.
    pub async fn rerun(&self, id: ExecutionId, rerun: RerunRequest) -> Result<ExecutionId, SubmitError> {
        let execution = self.new_execution_id();
        self.rerun_as(execution, id, rerun).await?;
        Ok(execution)
    }

    /// Starts the new execution under the caller's ID. Repeating the call does not start it again.
    pub(crate) async fn rerun_as(
        &self,
        execution: ExecutionId,
        id: ExecutionId,
        rerun: RerunRequest,
    ) -> Result<(), SubmitError> {
        let prepared = self.prepare_rerun(execution, id, rerun).await?;
        Ok(prepared.start.submit(&self.shared, prepared.registered).await?)
    }

    /// Plans the new execution without starting it.
    pub(crate) async fn prepare_rerun(
        &self,
        execution: ExecutionId,
        id: ExecutionId,
        rerun: RerunRequest,
    ) -> Result<PreparedRerun, SubmitError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let row = row.ok_or(Error::NotFound(id))?;
        if matches!(row.status, RunStatus::Running | RunStatus::Paused) {
            return Err(Refusal::StillRunning.into());
        }
        let version = rerun.version.unwrap_or(row.playbook_version);
        let registered = self.find_version(&row, version).await?;
        let unknown = |step: &&Name| registered.net.playbook.step(step.as_str()).is_none();
        if let Some(step) = rerun.from_step.as_ref().filter(unknown) {
            return Err(Refusal::StepUnknown(step.clone()).into());
        }
        let planner = ReusePlanner::new(rerun.from_step, rerun.from_iteration);
        let reuse = self.plan_reuse(id, planner).await?;
        reuse.check_steps_exist(&registered.net)?;
        let mut labels = self.shared.store.labels(&[id]).await.map_err(Error::from)?;
        let start = ExecutionStart {
            execution,
            payload: rerun.payload,
            parent: None,
            depth: 0,
            trace_id: None,
            labels: labels.remove(&id).unwrap_or_default(),
            consumed: None,
            reuse: Some(Box::new(reuse)),
        };
        Ok(PreparedRerun {
            original: row,
            registered,
            start,
        })
    }

    /// Reads as much of the log as the cut needs.
    async fn plan_reuse(&self, id: ExecutionId, mut planner: ReusePlanner) -> Result<ReusePlan, SubmitError> {
        let mut after = Seq(0);
        while !planner.is_complete() {
            let page = self.shared.store.events(id, after, PAGE).await;
            let page = page.map_err(Error::from)?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in &page {
                planner.read_event(event);
            }
        }
        Ok(planner.into_plan()?)
    }

    /// Finds a version of the execution's playbook.
    pub(crate) async fn find_version(&self, row: &ExecutionRow, version: u32) -> Result<RegisteredPlaybook, Error> {
        self.shared.catalog.find_version(row, version).await
    }
}
