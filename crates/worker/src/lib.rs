//! The worker: claims commands, runs task pipelines, stores results and reports events.
//!
//! Enters: commands, through a [`wire::Transport`]. Leaves: reports, through the same transport. The worker holds a
//! lease on each command. It reports events in order, and the events of a task with side effects are durable before the
//! next task starts.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod call;
mod claim;
mod claims;
mod clock;
mod command;
mod elements;
mod exhaustion;
mod hand;
mod held;
mod hold;
mod keep;
mod lease;
mod load;
mod logs;
mod lookup;
mod manifests;
mod patience;
mod playbooks;
mod prepare;
mod pulse;
mod range;
mod remote;
mod render;
mod request;
mod restore;
mod run;
mod scratch;
mod secrets;
mod settle;
#[cfg(test)]
mod tests;
mod worker;

pub use clock::{Clock, SystemClock};
pub use logs::{FileLogs, LOG_BYTES_MAX, LogLine, LogStream, Logs, ShippedLogs, read_logs};
pub use pipeline::JUMPS_MAX;
pub use remote::{ServerBodies, ServerLogs};
pub use worker::{Config, WorkEnd, Worker};
