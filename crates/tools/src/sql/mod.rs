//! SQL as tools need it: a command with values in it becomes statements with bound parameters.
//!
//! Enters: author text and values, and the task's `params`. Leaves: one `Statement` per SQL statement. A value is bound
//! where a value can stand, escaped inside quotes, and never spliced as text of the language.

mod bind;
mod place;
mod task;
mod words;

#[cfg(test)]
mod tests;

pub(crate) use bind::Statement;
#[cfg(test)]
pub(crate) use bind::{BindError, Params, bind};
pub(crate) use place::Dialect;
pub(crate) use task::{bound, literals, memory_bytes, statements, unique};
