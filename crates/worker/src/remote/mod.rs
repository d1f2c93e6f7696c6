//! What a worker without stores of its own keeps at a server: the bodies of results, and what tasks print.

mod bodies;
mod logs;
mod refusal;

pub use bodies::ServerBodies;
pub use logs::ServerLogs;
