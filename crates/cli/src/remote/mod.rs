//! What is reached through a server elsewhere: runs, the catalog, tokens, and the bodies that it keeps for workers.

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
