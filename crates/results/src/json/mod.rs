//! Streaming JSON: checks text in constant memory, and extracts the fields that a reference contains.

mod glean;
mod locate;
mod path;
mod scan;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use glean::{Glean, Gleaned, SELECTED_BYTES_MAX, Selected};
pub use locate::{Located, Places};
pub(crate) use locate::{Locator, Splitter};
pub use path::plain;
pub use scan::{NotJson, Scanner};
