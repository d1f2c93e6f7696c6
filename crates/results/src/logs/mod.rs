//! The lines that tasks print: kept by execution, in order, up to a bound, and read page by page.

mod file;
mod keep;

pub use file::{FileLogs, read_logs};
pub(crate) use keep::FULL;
pub use keep::{LOG_BYTES_MAX, LogAsk, LogPage, TaskLogs};
