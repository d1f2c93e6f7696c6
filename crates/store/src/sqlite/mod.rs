//! The store as a directory: `noetl.db` in WAL mode, and a lock file for each process that owns executions.
//!
//! One thread writes, in groups; reads have their own connections. Several processes may use one directory.

mod access;
mod append;
mod clock;
mod filesystem;
mod function_job;
mod handle;
mod iteration_reads;
mod iterations;
mod monitoring;
mod open;
mod owner_locks;
mod private_files;
mod queries;
mod read_pool;
mod removal;
mod reserve;
mod rows;
mod sealed;
mod store;
mod store_error;
#[cfg(test)]
mod tests;
mod waits;
mod writer;
mod writes;

pub use clock::ClockFn;
pub use handle::SqliteStore;
