//! Data of an execution that a worker needs to run a command, as of one sequence number; large values are pointers.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::OnceLock;

use model::id::{ExecutionId, Name, Seq};
use model::raw::RawJson;
use model::step_pointer::StepPointer;
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
    derived: OnceLock<Box<dyn Any + Send + Sync>>,
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
            derived: OnceLock::new(),
        }
    }

    /// Returns a value that is built from this context once, such as its template scope. A context has one such type.
    pub fn derive<T: Clone + Send + Sync + 'static>(&self, build: impl FnOnce(&Self) -> T) -> T {
        let derived = self.derived.get_or_init(|| Box::new(build(self)));
        let derived = derived.downcast_ref::<T>();
        derived.expect("a context has one derived type").clone()
    }
}
