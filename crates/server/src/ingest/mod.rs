//! Ingestion: converts events from clients of any version into reports on commands.
//!
//! Input: a batch of wire events of one execution. Output: one report to the driver, or all reasons for the refusal.
//! The checks run in this order: parse, authorize, deduplicate, check the claim, check the type.

mod batch;
mod deferred;
mod identity;
mod outcome;
mod translate;

pub(crate) use batch::{IncomingEvents, IngestError, ingest_batch, needs_no_row};
pub(crate) use deferred::{DeferredBatch, batch_status, decide_batch, store_batch};
