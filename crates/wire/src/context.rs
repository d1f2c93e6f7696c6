//! Data of an execution that a worker needs to run a command, as of one sequence number; large values are pointers.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use model::template::{ExecutionView, LazyValue, Scope, StepPointer};
use serde::{Deserialize, Serialize};

/// Data of an execution as of one sequence number.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExecutionContext {
    /// Execution ID.
    pub execution_id: ExecutionId,
    /// Sequence number of the last `ctx` change that is included.
    pub ctx_seq: Seq,
    /// Path of the playbook.
    pub path: Name,
    /// Catalog version of the playbook.
    pub version: u32,
    /// Execution that started this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_execution_id: Option<ExecutionId>,
    /// Iteration of the parent, for `iter.parent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_iter: Option<RawJson>,
    /// Merged inputs.
    pub workload: RawJson,
    /// Value of `ctx`.
    pub ctx: RawJson,
    /// Location of the latest result of each step.
    pub steps: BTreeMap<Name, StepPointer>,
    #[serde(skip)]
    scope: OnceLock<Scope>,
}

impl ExecutionContext {
    /// Creates a context with an empty `ctx` and no step results.
    pub fn new(execution_id: ExecutionId, path: Name, workload: RawJson) -> Self {
        Self {
            execution_id,
            ctx_seq: Seq(0),
            path,
            version: 0,
            parent_execution_id: None,
            parent_iter: None,
            workload,
            ctx: RawJson::from_serializable(&serde_json::Map::new()),
            steps: BTreeMap::new(),
            scope: OnceLock::new(),
        }
    }

    /// Returns the template scope of the execution; built once, cheap to clone.
    pub fn scope(&self) -> Scope {
        self.scope.get_or_init(|| self.build_scope()).clone()
    }

    fn build_scope(&self) -> Scope {
        let steps = self
            .steps
            .iter()
            .map(|(name, latest)| (name.clone(), latest.envelope()));
        Scope {
            workload: LazyValue::from_raw(self.workload.clone()),
            ctx: LazyValue::from_raw(self.ctx.clone()),
            steps: Arc::new(steps.collect()),
            execution: Arc::new(ExecutionView {
                execution_id: Some(self.execution_id),
                path: Some(self.path.clone()),
                version: Some(self.version),
                parent_execution_id: self.parent_execution_id,
            }),
            ..Scope::default()
        }
    }
}
