//! A simulated cluster in one thread: the engine and a store in memory, virtual time, and workers that run pipelines
//! with scripted outcomes instead of tools. The same calls in the same order produce the same logs.

mod again;
mod answers;
mod call;
mod errands;
mod hand;
mod kept;
mod load;
mod pipeline;
mod server;
mod tamper;

pub use answers::{Answer, Answers, Asked};
pub use hand::{Acted, Hand, Order};
pub use kept::Kept;
pub use load::{log, loop_results};
pub use server::{Broken, Cut, Posted, Server};
pub use tamper::{Honest, Tamper};
