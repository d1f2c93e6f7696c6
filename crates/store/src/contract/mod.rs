//! The contract test suite for stores: `store::contract_suite!(site)` runs it against a backend.
//!
//! A [`StoreFixture`] is one new store; each [`StoreFixture::join`] simulates another process that uses it.

mod access;
mod build;
mod fixture;
mod iterations;
mod labels;
mod log;
mod monitoring;
mod reads;
mod retention;
mod sealed;
mod shared;
mod waits;
mod work;

pub use access::*;
pub use build::{PlainStep, creation_commit};
pub use fixture::StoreFixture;
use fixture::expect_ok;
pub use iterations::*;
pub use labels::*;
pub use log::*;
pub use monitoring::*;
pub(crate) use reads::count_log_row;
pub use reads::log_rows_read;
pub use retention::*;
pub use sealed::*;
pub use shared::*;
pub use waits::*;
pub use work::*;
