//! The store: event log, command claims, timers, messages and projections.
//!
//! A [`Store`] is the source of truth. [`Sqlite`] is a directory that several processes can share; [`Postgres`] is a
//! database that several machines can share; [`Memory`] has the same guarantees without a disk, for the simulator and
//! for tests. All of them pass the suite in [`contract`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod boot_time;
mod commit;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
mod damage;
mod error;
mod ids;
mod iterations;
mod memory;
mod outcomes;
mod postgres;
mod projections;
mod rows;
mod safe;
mod sqlite;
mod store;
mod verify;
mod watch;

pub use access::{AccessId, AuditEntry, AuditOutcome, AuditRow, Held, OutboxRow, Peer, TokenRow};
pub use commit::{
    CommandChange, Commit, Committed, Creation, Fence, Foreign, Issue, Key, Message, MessageKey,
    Priority,
};
pub use error::{Cause, Error};
pub use memory::{Clock, Memory};
pub use postgres::{Postgres, PostgresConnections, PostgresOptions, PostgresUrl};
pub use rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, Rebuilt, Recorded,
    RemovedRows, ResultRow, SessionHolder, Snapshot, StepState, WorkerSession,
};
pub use safe::{CredentialRow, KeychainRow, Safe, Sealed, SealedPlace};
pub use sqlite::Sqlite;
pub use store::{BATCH, BATCH_END, DEDUP, Store};
pub use verify::{Damage, Verified};
pub use watch::ChangeWatch;
