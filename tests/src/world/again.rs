//! Reruns and retries with another playbook version: what a server prepares before it posts the input.

use engine::{Cut, Input, Submit, Switch};
use model::id::ExecutionId;
use model::raw::Raw;
use store::{CatalogEntry, Store as _};

use crate::conformance::Again;
use crate::world::load::{log, now};
use crate::world::server::{Broken, Posted, Server};

impl Server {
    /// Playbook text for a retry that names a version.
    pub fn switch(
        &mut self,
        execution: ExecutionId,
        version: Option<u32>,
    ) -> Result<Option<Box<Switch>>, Broken> {
        if version.is_none() {
            return Ok(None);
        }
        let Some(entry) = self.version_of(execution, version)? else {
            return Ok(None);
        };
        let Some(was) = self.row(execution)?.map(|row| row.hash) else {
            return Ok(None);
        };
        let was = self.net(&was)?.playbook.clone();
        Ok(Some(Box::new(Switch {
            version: entry.version,
            hash: entry.hash,
            was,
        })))
    }

    /// Reruns an execution; `None` if the rerun is refused.
    pub fn rerun(&mut self, of: ExecutionId, again: Again) -> Result<Option<ExecutionId>, Broken> {
        let mut cut = Cut::before(again.from_step, again.from_iteration);
        for event in &log(&self.store, of) {
            cut.read(event);
        }
        let entry = self.version_of(of, again.version)?;
        let row = self.row(of)?;
        let has_ended = row.is_some_and(|row| row.status.is_terminal());
        let (true, Ok(reuse), Some(entry)) = (has_ended, cut.plan(), entry) else {
            return Ok(None);
        };
        let execution = ExecutionId(self.store.ids(1).0);
        let submit = Submit {
            execution,
            path: entry.path,
            version: entry.version,
            hash: entry.hash,
            payload: again.payload.as_ref().map(Raw::of),
            parent: None,
            depth: 0,
            trace_id: None,
            reuse: Some(Box::new(reuse)),
            env: None,
        };
        let input = Input::Submit(Box::new(submit));
        match self.post(0, execution, input, None)? {
            Posted::Done(_) => Ok(Some(execution)),
            Posted::Refused(_) => Ok(None),
        }
    }

    /// The requested version of an execution's playbook, or its current one.
    fn version_of(
        &self,
        execution: ExecutionId,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Broken> {
        let Some(row) = self.row(execution)? else {
            return Ok(None);
        };
        let version = version.unwrap_or(row.playbook_version);
        Ok(now(self.store.latest(row.path.as_str(), Some(version)))?)
    }
}
