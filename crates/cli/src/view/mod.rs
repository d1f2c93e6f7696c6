//! A run as people look at it: one fold of its events, shared by progress, `show` and JSON.
//!
//! Enters: events in the order of their log. Leaves: [`RunView`]. Pure: no clock, no store.

mod fold;
mod outline;
mod run;
mod steps;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use run::RunView;
pub(crate) use steps::{LoopView, OpenTask, Standing, StepFailure, StepView};
