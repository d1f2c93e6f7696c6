//! Output of tasks: received line by line, limited per attempt, and written to files or sent to a server.

mod printed;
mod shipped;
mod sink;

pub use model::task_log::{LogLine, LogStream};
pub(crate) use printed::Printed;
pub use results::{FileLogs, LOG_BYTES_MAX, read_logs};
pub use shipped::ShippedLogs;
pub use sink::Logs;
