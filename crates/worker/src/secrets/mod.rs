//! Secrets in a worker: fetched just before a call, kept in memory, and masked in everything that leaves the worker.

mod edges;
mod forms;
mod kept;
mod masks;
mod open;
mod sieve;
mod userinfo;

pub(crate) use kept::{RunSecrets, Secrets};
pub(crate) use masks::{CUT_BYTES_MIN, Masks};
pub(crate) use sieve::MaskedBodies;
pub(crate) use userinfo::{strip_userinfo, strip_value};
