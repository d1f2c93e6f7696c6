//! Formats views as text (durations, previews, lines, tables, failure blocks) and as the JSON of `-o json`.

pub(crate) mod elements;
pub(crate) mod failure;
pub(crate) mod human;
pub(crate) mod lines;
pub(crate) mod preview;
pub(crate) mod report;
pub(crate) mod rerun_preview;
pub(crate) mod result_text;
pub(crate) mod table;
pub(crate) mod tree;
pub(crate) mod value;
