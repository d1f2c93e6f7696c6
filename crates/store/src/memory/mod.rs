//! A store in memory with the same contract, for the simulator and for tests.
//!
//! No method awaits, and clock and IDs are injected, so every run is deterministic. A [`MemoryStore`] is one process's
//! handle; [`MemoryStore::join_process`] adds another process on the same store, and [`MemoryStore::kill`] ends one.

mod access;
mod iterations;
mod monitoring;
mod process;
mod removal;
mod sealed;
mod state;
#[cfg(test)]
mod tests;
mod waits;

pub use process::MemoryStore;
