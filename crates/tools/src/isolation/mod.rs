//! What holds a program that a task starts: limits of the kernel, and a sandbox around its files, network and calls.
//!
//! A request that cannot be honoured fails the task; it never runs with less isolation than was asked for.

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
