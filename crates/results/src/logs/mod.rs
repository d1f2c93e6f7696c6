//! Task logs: the lines that tasks print, per execution, in order, limited in size, and read in pages.

mod file;
mod keep;

pub use file::{FileLogs, read_logs};
pub(crate) use keep::FULL;
pub use keep::{LOG_BYTES_MAX, LogAsk, LogPage, TaskLogs};
