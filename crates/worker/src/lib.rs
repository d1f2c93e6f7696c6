//! The worker: claims commands, runs task pipelines, stores results and reports events.
//!
//! Input: commands, through a [`wire::Transport`]. Output: reports, through the same transport. The worker holds a
//! lease on each command. It reports events in order, and the events of a task with side effects are durable before the
//! next task starts.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod backoff;
mod call;
mod claim_loop;
mod clock;
mod command;
mod command_context;
mod context_scope;
mod cursor_claim;
mod elements;
mod finish_attempt;
mod heartbeat;
mod host_wait;
mod iteration_runner;
mod lease;
mod load;
mod loaded_cache;
mod logs;
mod lookup;
mod manifests;
mod pipeline_run;
mod playbooks;
mod prepare;
mod remote;
mod render;
mod report_batcher;
mod request;
mod restore;
mod scratch;
mod secrets;
mod store_results;
#[cfg(test)]
mod tests;
mod worker;

pub use clock::{Clock, SystemClock};
pub use logs::{FileLogs, LOG_BYTES_MAX, LogLine, LogShipper, LogStream, TaskLogSink, read_logs};
pub use pipeline::JUMPS_MAX;
pub use remote::{HttpBodyStore, HttpTaskLogs};
pub use worker::{Config, WorkEnd, Worker};
