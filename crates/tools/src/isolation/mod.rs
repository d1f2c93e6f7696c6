//! Isolation of programs that tasks start: kernel limits, and a sandbox for files, network and system calls.
//!
//! If a request cannot be fulfilled, the task fails; it never runs with less isolation than requested.

mod enforce;
mod limits;
mod sandbox;
mod support;

#[cfg(test)]
mod tests;

pub use limits::{GATE_OPEN_LINE, ResourceLimits};
pub(crate) use limits::{GATE_SCRIPT, isolation_unavailable_error, limit_reached, limits_error};
pub(crate) use sandbox::Sandbox;
pub use sandbox::{SandboxLevel, SandboxRules};
pub use support::SandboxSupport;
