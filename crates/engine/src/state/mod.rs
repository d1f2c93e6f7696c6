//! State: the current state of an execution, folded from its log. It contains pointers into the log, never results.

mod fold;
mod index;
mod loops;
mod reuse;
mod runs;
mod shape;
mod shared_map;
mod switch;
mod work;

pub use fold::fold;
pub(crate) use index::{StateIndex, StepKind, waits};
pub use loops::{LoopRun, Returned};
pub use runs::{LiveCommand, Run, Waiting};
pub use shape::{
    Boundary, BoundaryKind, LiveTimer, Phase, State, StepSummary, Stop, StopReason, Token,
};
pub use shared_map::SharedMap;
pub(crate) use work::child_id;
