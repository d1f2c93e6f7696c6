//! What tasks print: taken line by line, bounded per task, and written to files or sent to where it is kept.

mod printed;
mod shipped;
mod sink;

pub use model::task_log::{LogLine, LogStream};
pub(crate) use printed::Printed;
pub use results::{FileLogs, LOG_BYTES_MAX, read_logs};
pub use shipped::ShippedLogs;
pub use sink::Logs;
