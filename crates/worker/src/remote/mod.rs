//! Stores of a worker that has none of its own: result bodies and task logs go to a server.

mod bodies;
mod logs;
mod refusal;

pub use bodies::ServerBodies;
pub use logs::ServerLogs;
