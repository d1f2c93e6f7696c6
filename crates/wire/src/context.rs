//! What a worker knows of an execution while it runs a command: its data as of one seq, by pointer where it is large.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use model::id::{ExecutionId, Name, Seq};
use model::raw::Raw;
use model::template::{Data, Latest, RunView, Scope};
use serde::{Deserialize, Serialize};

/// An execution's data as of one seq.
#[derive(Debug, Serialize, Deserialize)]
pub struct Context {
    /// The execution.
    pub execution_id: ExecutionId,
    /// The last change of `ctx` it includes.
    pub ctx_seq: Seq,
    /// The playbook's path.
    pub path: Name,
    /// The playbook's catalog version.
    pub version: u32,
    /// The execution that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// The parent's iteration: `iter.parent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_iter: Option<Raw>,
    /// The merged inputs.
    pub workload: Raw,
    /// The execution's state.
    pub ctx: Raw,
    /// Where each step's latest envelope is found.
    pub steps: BTreeMap<Name, Latest>,
    #[serde(skip)]
    scope: OnceLock<Scope>,
}

impl Context {
    /// A context around an execution's data.
    pub fn new(execution_id: ExecutionId, path: Name, workload: Raw) -> Self {
        Self {
            execution_id,
            ctx_seq: Seq(0),
            path,
            version: 0,
            parent_execution_id: None,
            parent_iter: None,
            workload,
            ctx: Raw::of(&serde_json::Map::new()),
            steps: BTreeMap::new(),
            scope: OnceLock::new(),
        }
    }

    /// What every template of the execution sees; made once, cheap to clone.
    pub fn scope(&self) -> Scope {
        self.scope.get_or_init(|| self.build_scope()).clone()
    }

    fn build_scope(&self) -> Scope {
        let steps = self
            .steps
            .iter()
            .map(|(name, latest)| (name.clone(), latest.envelope()));
        Scope {
            workload: Data::lazy(self.workload.clone()),
            ctx: Data::lazy(self.ctx.clone()),
            steps: Arc::new(steps.collect()),
            run: Arc::new(RunView {
                execution_id: Some(self.execution_id),
                path: Some(self.path.clone()),
                version: Some(self.version),
                parent_execution_id: self.parent_execution_id,
            }),
            ..Scope::default()
        }
    }
}
