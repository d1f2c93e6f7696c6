//! Runs the task pipeline of one step as pure logic: its position, its policy, and its next action.
//!
//! The position is computed from the pipeline's own events. Worker, engine and simulator share this implementation.
//! Input: a continuation and an outcome. Output: the next action and the events that record it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod answer;
mod fold;
mod labels;
mod next;
mod outside;
mod policy;
mod settle;
mod writes;

pub use answer::answer;
pub use fold::fold;
pub use labels::{recall, see};
pub use next::{Entry, Next, TaskRun, next};
pub use outside::{Asked, Waiting, child, wait};
pub use policy::{ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DELAY_MAX, SUSPEND_AFTER};
pub use settle::{
    Draft, JUMPS_MAX, Place, Settled, Writes, fail, idempotency_key, render_failure, settle,
};
pub use writes::{apply_writes, iteration_patch};
