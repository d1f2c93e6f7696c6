//! The language described as data, for editors: sections with their keys, tool kinds, and the words of templates.
//!
//! Keys, kinds, words, filters and tests come from the tables of the parser; the tests below fail if a description is
//! missing or describes something that the parser does not know.

mod keys;
mod section_docs;
mod sections;
mod template_docs;
mod tool_docs;

pub use keys::{KeyDoc, ValueType};
pub(crate) use keys::{key_docs, list_words};
pub use sections::{SECTIONS, SectionDoc, find_section};
pub use template_docs::{ENVELOPE_FIELDS, FILTER_DOCS, FUNCTION_DOCS, NAMES, NameDoc, NameSite, TEST_DOCS, WordDoc};
pub use tool_docs::{KIND_DOCS, KindDoc, find_kind_doc};

#[cfg(test)]
mod tests;
