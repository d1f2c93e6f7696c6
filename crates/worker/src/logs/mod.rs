//! Output of tasks: received line by line, limited per attempt, and written to files or sent to a server.

mod line_limiter;
mod log_shipper;
mod sink;

pub(crate) use line_limiter::LineLimiter;
pub use log_shipper::LogShipper;
pub use model::task_log::{LogLine, LogStream};
pub use results::{FileLogs, LOG_BYTES_MAX, read_logs};
pub use sink::TaskLogSink;
