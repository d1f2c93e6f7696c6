//! The engine: folds events into `State`, and computes a `Decision` from `State` and an input.
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

pub use decide::{Limits, Net, Refusal, Undecided, decide, needs};
pub use decision::{BodyToKeep, CommandChange, Decision, Key, MessageBody, OutMessage};
pub use graph::Graph;
pub use input::{Input, Report, Stamp, Submit, Switch};
pub use reuse::{Cut, Reuse, Takeover};
pub use state::{
    Boundary, BoundaryKind, LiveCommand, LiveTimer, LoopRun, Phase, Returned, Run, SharedMap,
    State, StepSummary, Stop, StopReason, Token, Waiting, fold,
};
