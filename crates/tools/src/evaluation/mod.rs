//! Evaluation of jq programs and rhai scripts, in processes whose memory is limited.
//!
//! Input: an [`Evaluation`], a user's program with its input. Output: its value, or the error of the task.

mod processes;
mod request;
mod result_size;
mod serve;
mod threads;

pub(crate) use processes::EvaluationProcesses;
pub(crate) use request::{Evaluation, Language};
pub(crate) use result_size::ResultBudget;
pub use serve::{EVALUATION_PROCESS_ARGUMENT, serve_evaluations};
#[cfg(test)]
pub(crate) use threads::evaluate_on_thread;
