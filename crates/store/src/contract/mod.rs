//! The contract test suite for stores: `store::contract_suite!(site)` runs it against a backend.
//!
//! A [`Site`] is one new store; each [`Site::join`] simulates another process that uses it.

mod access;
mod build;
mod iterations;
mod log;
mod reads;
mod retention;
mod safe;
mod shared;
mod site;
mod work;

pub use access::*;
pub use build::{PlainStep, request};
pub use iterations::*;
pub use log::*;
pub(crate) use reads::count_log_row;
pub use reads::log_rows_read;
pub use retention::*;
pub use safe::*;
pub use shared::*;
pub use site::Site;
use site::ok;
pub use work::*;
