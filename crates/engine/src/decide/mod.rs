//! Decisions: an input is folded, then whatever the state now calls for is written down until nothing is missing.
//!
//! Each file here owns one decision. They look at the state and emit events; folding the events is the only way the
//! state moves, so a replay of the log comes to the same state without any of them.

mod admission;
mod advance;
mod bodies;
mod boundary;
mod children;
mod commands;
mod completion;
mod control;
mod coverage;
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
mod takeover;
mod timers;
mod turn;

pub use advance::{decide, needs};
pub use net::{Limits, Net, Refusal, Undecided};
