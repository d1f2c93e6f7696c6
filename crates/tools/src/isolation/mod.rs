//! Isolation of programs that tasks start: kernel limits, and a sandbox for files, network and system calls.
//!
//! If a request cannot be fulfilled, the task fails; it never runs with less isolation than requested.

mod abilities;
mod enforce;
mod limits;
mod sandbox;

#[cfg(test)]
mod tests;

pub use abilities::Abilities;
pub(crate) use limits::{GATE, GO, Limits, limit_reached, not_limited, unavailable};
pub use sandbox::SandboxLevel;
pub(crate) use sandbox::{Confines, Sandbox};
