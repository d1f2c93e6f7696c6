//! The worker: claims commands, runs task pipelines, stores results, reports events.
//!
//! Enters: commands, through a [`wire::Transport`]. Leaves: reports through the same. A command is held under a lease;
//! what its tasks did is said in order, and nothing that has effects is followed by anything before it is durable.

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
