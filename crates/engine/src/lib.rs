//! The decisions: folds events into `State`, turns `State` and an input into a `Decision`.
//!
//! Pure. The same log and the same input always give the same decision. What a decision must read and does not
//! have is named in `Needs`; the caller loads it and asks again.

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
