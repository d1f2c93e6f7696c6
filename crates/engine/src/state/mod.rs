//! State: the current state of an execution, folded from its log. It contains pointers into the log, never results.

mod execution_state;
mod fold;
mod fold_work;
mod index;
mod loops;
mod reuse;
mod shared_map;
mod step_run;
mod switch;

pub use execution_state::{
    Boundary, BoundaryKind, ExecutionState, LiveTimer, Phase, StepSummary, StopInProgress, StopReason, Token,
};
pub use fold::fold;
pub(crate) use fold_work::child_id;
pub(crate) use index::{StateIndex, StepKind, is_waiting};
pub use loops::{LoopRun, ReturnedRange};
pub use shared_map::SharedMap;
pub use step_run::{LiveCommand, PendingWait, StepRun};
