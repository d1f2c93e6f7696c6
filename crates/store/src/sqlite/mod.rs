//! The store as a directory: `noetl.db` in WAL mode, and a lock file for each process that owns executions.
//!
//! One thread writes, in groups; reads have their own connections. Several processes may use one directory.

mod access;
mod append;
mod change;
mod clock;
mod directory;
mod failure;
mod filesystem;
mod function_job;
mod iterations;
mod open;
mod owners;
mod private;
mod read;
mod readers;
mod removal;
mod reserve;
mod rows;
mod safe;
#[cfg(test)]
mod tests;
mod writer;

pub use directory::Sqlite;
