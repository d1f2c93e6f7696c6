//! View of a run, computed from its events; progress, `show` and JSON output share it.
//!
//! Input: events in log order. Output: [`RunView`]. Pure: no clock, no store.

mod fold;
mod outline;
mod run;
mod steps;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use run::RunView;
pub(crate) use steps::{LoopView, OpenTask, StepFailure, StepStatus, StepView};
