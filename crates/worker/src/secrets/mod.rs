//! Secrets in a worker: fetched just before a call, kept in memory, and masked in everything that leaves the worker.

mod cache;
mod edges;
mod forms;
mod masker;
mod masking_store;
mod resolve;
mod userinfo;

pub(crate) use cache::{ExecutionSecrets, SecretCache};
pub(crate) use masker::{CUT_BYTES_MIN, SecretMasker};
pub(crate) use masking_store::MaskingBodyStore;
pub(crate) use userinfo::{strip_userinfo, strip_value};
