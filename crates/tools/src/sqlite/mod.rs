//! `sqlite`: statements against a file, or against a database that lives for one call.

mod failure;
mod run;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use run::{check_file, json_value, open, sql_value, told};
pub(crate) use tool::Sqlite;
