//! The engine: folds events into an `ExecutionState`, and computes a `Decision` from that state and an input.
//!
//! The engine is pure: the same log and the same input always give the same decision. If a decision needs data that is
//! not loaded, it returns `Needs`; the caller loads the data and calls it again.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod decide;
mod decision;
mod graph;
mod input;
mod reuse;
mod state;

pub use decide::{DecideError, ExecutionLimits, PlaybookNet, Refusal, decide, needs};
pub use decision::{BodyToStore, CommandOffer, Decision, ExecutionMessage, OutgoingMessage};
pub use graph::Graph;
pub use input::{CommandReport, ControlRequest, ExecutionRequest, Input, PlaybookSwitch, Stamp};
pub use reuse::{ReusePlan, ReusePlanner, ReusedState};
pub use state::{
    Boundary, BoundaryKind, ExecutionState, LiveCommand, LiveTimer, LoopRun, PendingWait, Phase, ReturnedRange,
    SharedMap, StepRun, StepSummary, StopInProgress, StopReason, Token, fold,
};
