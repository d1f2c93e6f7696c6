//! Runs the task pipeline of one step as pure logic: its position, its policy, and its next action.
//!
//! The position is computed from the pipeline's own events. Worker, engine and simulator share this implementation.
//! Input: a continuation and an outcome. Output: the next action and the events that record it.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod apply_policy;
mod awaited_outcome;
mod fold;
mod labels;
mod next_action;
mod policy;
mod waiting_tasks;
mod writes;

pub use apply_policy::{
    EventDraft, JUMPS_MAX, OutcomeRecord, PipelinePosition, RenderedWrites, apply_policy, fail_without_policy,
    idempotency_key, render_failure,
};
pub use awaited_outcome::awaited_outcome;
pub use fold::fold;
pub use labels::{expose_outcome, expose_recorded_outcomes};
pub use next_action::{AttemptKind, NextAction, TaskAttempt, next_action};
pub use policy::{ATTEMPTS_DEFAULT, ATTEMPTS_MAX, DELAY_MAX, SUSPEND_DELAY_MIN};
pub use waiting_tasks::{RenderedTask, WaitAction, parse_approval, parse_child_task, parse_wait_task};
pub use writes::{apply_writes, iteration_patch};
