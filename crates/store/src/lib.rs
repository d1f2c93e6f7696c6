//! The store: event log, command claims, timers, messages and projections.
//!
//! A [`Store`] is the source of truth. [`SqliteStore`] is a directory that several processes can share;
//! [`PostgresStore`] is a database that several machines can share. With the feature `memory`, `MemoryStore` has the
//! same guarantees without a disk, for the simulator and for tests. All of them pass the suite in `contract`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod boot_time;
mod columns;
mod commit;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod damage;
mod error;
mod execution_filter;
mod ids;
mod iteration_reads;
mod iterations;
mod list_statement;
#[cfg(any(test, feature = "memory"))]
mod memory;
mod monitoring;
mod outcomes;
mod pending_waits;
mod postgres;
mod projections;
mod rows;
mod sealed;
mod sqlite;
mod store;
mod verify;
mod wait_filter;
mod watch;

pub use self::postgres::{PostgresOptions, PostgresStore};
pub use ::postgres::PostgresUrl;
pub use access::{
    AccessTokenId, AccessTokenRow, AuditEntry, AuditOutcome, AuditRow, OutboxRow, StoreProcess, WorkerClaim,
};
pub use commit::{
    CommandChange, Commit, CommitStatus, ExecutionCreation, ExternalEventKey, IssuedCommand, Message, MessageKey,
    Priority,
};
pub use error::{BoxError, Error};
pub use execution_filter::{ExecutionFilter, ExecutionSearch, FacetRow, error_code};
pub use iteration_reads::{IterationRow, IterationRowQuery, IterationTiming, IterationTimings};
pub use iterations::ITERATION_BLOCK;
#[cfg(any(test, feature = "memory"))]
pub use memory::MemoryStore;
pub use monitoring::{ClaimedCommandRow, MonitoringStore, PendingCommand, PendingScope, StoreSize, WorkerSessionRow};
pub use rows::{
    Adoption, CatalogEntry, CatalogVersion, ClaimQuery, CommandClaim, ExecutionRow, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, PendingSignalWait, RebuildStats, RemovedRows,
    ResultRow, SessionHolder, Snapshot, StepState, StoredExecution, WaitEntry, WorkerSession,
};
pub use sealed::{CredentialRow, KeychainRow, SealedLocation, SealedStore, SealedValue};
pub use sqlite::{ClockFn, SqliteStore};
pub use store::{BATCH_END_PREFIX, BATCH_PREFIX, DEDUP_PREFIX, ENDED_SESSION_PREFIX, Store};
pub use verify::{Damage, VerifyReport};
pub use wait_filter::{WaitFilter, WaitPosition};
pub use watch::ChangeWatch;
