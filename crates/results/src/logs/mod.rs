//! Task logs: the lines that tasks print, per execution, in order, limited in size, and read in pages.

mod file;
mod task_logs;

pub use file::{FileLogs, read_logs};
pub(crate) use task_logs::LOG_FULL_MESSAGE;
pub use task_logs::{LOG_BYTES_MAX, LogPage, LogPosition, LogQuery, StoredLine, TaskLogs};
