//! Streaming JSON: checks text in constant memory, and extracts the fields that a reference contains.

mod extractor;
mod locator;
mod path;
mod path_tracker;
mod scan;
mod string_scanner;

#[cfg(test)]
mod tests;

pub(crate) use extractor::{ExtractedFields, JsonExtractor, SELECTED_BYTES_MAX, SelectedValue};
pub use locator::{ElementOffsets, LocatedValue};
pub(crate) use locator::{ElementSplitter, JsonLocator};
pub use path::parse_plain_path;
pub use scan::{JsonScanError, JsonScanner};
