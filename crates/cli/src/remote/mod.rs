//! Access to a remote server: runs, catalog, access tokens and credentials.

mod begin;
mod elsewhere;
mod holdings;
mod listen;
mod paths;
mod refusal;
mod sse;
mod token;
mod unwrap;

pub(crate) use elsewhere::{Elsewhere, client};
pub(crate) use token::unanswered;
