//! Ingestion: converts events from clients of any version into reports on commands.
//!
//! Input: a batch of wire events of one execution. Output: one report to the driver, or all reasons for the refusal.
//! The checks run in this order: parse, authorize, deduplicate, check the claim, check the type.

mod identity;
mod intake;
mod later;
mod outcome;
mod translate;

pub(crate) use intake::{IncomingEvents, Refused, needs_no_row, take};
pub(crate) use later::{Deferred, accept, decide, status};
