//! Reruns and retries with another playbook version: what a server prepares before it posts the input.

use engine::{ExecutionRequest, Input, PlaybookSwitch, ReusePlanner};
use model::id::ExecutionId;
use model::raw::RawJson;
use store::{CatalogEntry, Store as _};

use crate::conformance::RerunInput;
use crate::world::load::{block_on_ready, read_log};
use crate::world::server::{InputResult, WorldError, WorldServer};

impl WorldServer {
    /// Playbook text for a retry that names a version.
    pub fn resolve_switch(
        &mut self,
        execution: ExecutionId,
        version: Option<u32>,
    ) -> Result<Option<Box<PlaybookSwitch>>, WorldError> {
        if version.is_none() {
            return Ok(None);
        }
        let Some(entry) = self.version_of(execution, version)? else {
            return Ok(None);
        };
        let Some(was) = self.execution_row(execution)?.map(|row| row.hash) else {
            return Ok(None);
        };
        let was = self.load_net(&was)?.playbook.clone();
        Ok(Some(Box::new(PlaybookSwitch {
            version: entry.version,
            hash: entry.hash,
            previous: was,
        })))
    }

    /// Reruns an execution; `None` if the rerun is refused.
    pub fn rerun(
        &mut self,
        source: ExecutionId,
        rerun_input: RerunInput,
    ) -> Result<Option<ExecutionId>, WorldError> {
        let mut cut = ReusePlanner::new(rerun_input.from_step, rerun_input.from_iteration);
        for event in &read_log(&self.store, source) {
            cut.read_event(event);
        }
        let entry = self.version_of(source, rerun_input.version)?;
        let row = self.execution_row(source)?;
        let has_ended = row.is_some_and(|row| row.status.is_terminal());
        let (true, Ok(reuse), Some(entry)) = (has_ended, cut.into_plan(), entry) else {
            return Ok(None);
        };
        let execution = ExecutionId(self.store.ids(1).0);
        let submit = ExecutionRequest {
            execution,
            path: entry.path,
            version: entry.version,
            hash: entry.hash,
            payload: rerun_input.payload.as_ref().map(RawJson::from_serializable),
            parent: None,
            depth: 0,
            trace_id: None,
            reuse: Some(Box::new(reuse)),
            env: None,
        };
        let input = Input::Submit(Box::new(submit));
        match self.apply_input(0, execution, input, None)? {
            InputResult::Committed(_) => Ok(Some(execution)),
            InputResult::Refused(_) => Ok(None),
        }
    }

    /// The requested version of an execution's playbook, or its current one.
    fn version_of(
        &self,
        execution: ExecutionId,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, WorldError> {
        let Some(row) = self.execution_row(execution)? else {
            return Ok(None);
        };
        let version = version.unwrap_or(row.playbook_version);
        Ok(block_on_ready(
            self.store.catalog_entry(row.path.as_str(), Some(version)),
        )?)
    }
}
