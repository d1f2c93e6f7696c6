//! The `sqlite` tool: runs statements against a file, or an in-memory database for one call.

mod failure;
mod run;
mod tool;

#[cfg(test)]
mod tests;

pub use run::{check_file, json_value, open_database, sql_value, task_error};
pub(crate) use tool::SqliteTool;
