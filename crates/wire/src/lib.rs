//! What crosses the boundary between server and worker, and the trait that carries it.
//!
//! [`Transport`] is implemented by the server in process and by a client over the network; both carry these types.

mod context;
mod transport;

pub use context::Context;
pub use transport::{
    Ask, Claimed, Error, PlaybookText, Receipt, Report, Resume, Told, Transport, Verdict,
};
