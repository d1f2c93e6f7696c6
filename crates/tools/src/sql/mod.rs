//! SQL as tools need it: a command with values in it becomes statements with values placed by where they stand.
//!
//! Enters: author text and values, and the task's `params`. Leaves: one `Statement` per SQL statement. A number is a
//! literal, a text is bound, a name is quoted where only a name can stand, and what stands inside quotes is escaped for
//! them. Nothing is spliced as text of the language.

mod bind;
mod body;
mod calendar_date;
mod clauses;
mod duckdb;
mod error;
mod neighbors;
mod params;
mod place_value;
mod quote;
mod sql_context;
mod statement;
mod statement_words;
mod task;
mod unclear;

#[cfg(test)]
mod tests;

pub use bind::{CommandText, bind_command};
pub use calendar_date::CalendarDate;
pub use error::BindError;
pub use params::Params;
pub use sql_context::SqlDialect;
pub use statement::{SqlStatement, StatementText};
pub use task::{CommandTexts, bind_commands, bind_statements, memory_bytes, quoted_texts, unique_names};
