//! Decisions: applies an input, then emits the events that the new state requires, until none is missing.
//!
//! Each file makes one kind of decision. It reads the state and emits events. Only folding events changes the state,
//! so a replay of the log yields the same state without this code.

mod admission;
mod advance;
mod apply_reuse;
mod bodies;
mod boundary;
mod children;
mod commands;
mod completion;
mod control;
mod coverage;
mod decision_builder;
mod entry;
mod joins;
mod loops;
mod manifests;
mod net;
mod reports;
mod routing;
mod scope;
mod stopping;
mod switching;
mod timers;

pub use advance::{decide, needs};
pub use net::{DecideError, ExecutionLimits, PlaybookNet, Refusal};
