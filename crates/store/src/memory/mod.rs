//! A store without a disk: the same contract, for the simulator and for tests.
//!
//! Nothing here awaits; clock and ids follow from what is injected, so a run is the same every time. A [`Memory`] is
//! one process's handle; [`Memory::another`] gives another process on the same store, [`Memory::die`] ends one.

mod access;
mod iterations;
mod process;
mod removal;
mod safe;
mod state;
#[cfg(test)]
mod tests;

pub use process::{Clock, Memory};
