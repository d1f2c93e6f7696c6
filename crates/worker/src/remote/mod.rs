//! Stores of a worker that has none of its own: result bodies and task logs go to a server.

mod bodies;
mod logs;
mod store_error;

pub use bodies::HttpBodyStore;
pub use logs::HttpTaskLogs;
