//! The `sqlite` tool: runs statements against a file, or an in-memory database for one call.

mod failure;
mod run;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use run::{check_file, json_value, open, sql_value, told};
pub(crate) use tool::Sqlite;
