//! SQL commands with values: splits them into statements and inserts each value by its lexical context.
//!
//! Input: playbook text and values, and the task's `params`. Output: one `SqlStatement` per statement. A number becomes
//! a literal, text is bound as a parameter, a name is quoted where only a name is allowed, and a value inside quotes is
//! escaped for them. No value is ever parsed as SQL.

mod ambiguity;
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

#[cfg(test)]
mod tests;

pub use bind::{CommandText, bind_command};
pub use calendar_date::{CalendarDate, clock_text};
pub use error::BindError;
pub use params::Params;
pub use sql_context::SqlDialect;
pub use statement::{SqlStatement, StatementText};
pub use task::{CommandTexts, bind_commands, bind_statements, memory_bytes, quoted_texts, unique_names};
