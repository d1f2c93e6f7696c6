//! The language of playbooks for editors: reference, completion and hover texts.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The language of playbooks as data.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LanguageReference {
    /// Maps with a fixed set of keys, from the root inwards.
    pub sections: Vec<LanguageSection>,
    /// Built-in tool kinds.
    pub tool_kinds: Vec<ToolKindEntry>,
    /// Names that templates can read, besides those that the playbook defines.
    pub template_names: Vec<TemplateNameEntry>,
    /// Filters of templates.
    pub filters: Vec<LanguageWord>,
    /// Tests of templates.
    pub tests: Vec<LanguageWord>,
    /// Functions of templates.
    pub functions: Vec<LanguageWord>,
    /// Codes of diagnostics, as `noetl explain` prints them.
    pub diagnostic_codes: Vec<DiagnosticCodeEntry>,
}

/// A map with a fixed set of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LanguageSection {
    /// Its name, such as `step spec`.
    pub name: String,
    /// Its path in the playbook, such as `workflow[].spec`; empty for the root.
    pub path: String,
    /// Its keys.
    pub keys: Vec<LanguageKey>,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LanguageKey {
    /// The canonical spelling.
    pub key: String,
    /// Other spellings.
    pub aliases: Vec<String>,
    /// The type of its value, in a few words.
    #[serde(rename = "type")]
    pub type_: String,
    /// The values that it accepts, if they are a fixed set.
    pub values: Vec<String>,
    /// What applies without the key.
    pub default: Option<String>,
    /// The section with the keys of its value.
    pub section: Option<String>,
    /// One sentence about it.
    pub documentation: String,
}

/// A tool kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolKindEntry {
    /// Its name.
    pub kind: String,
    /// One sentence about it.
    pub documentation: String,
    /// Its own keys, besides those of the section `task`.
    pub keys: Vec<LanguageKey>,
    /// Keys of which exactly one is required.
    pub one_of: Vec<String>,
}

/// A name that templates can read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateNameEntry {
    /// The name.
    pub name: String,
    /// Where it can be read: `default` (of `workload` and `ctx`), `admission`, `call`, `outcome` or `condition`.
    pub places: Vec<String>,
    /// Its fields, if they are a fixed set.
    pub fields: Vec<String>,
    /// One sentence about it.
    pub documentation: String,
}

/// A filter, test or function of templates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LanguageWord {
    /// Its name.
    pub name: String,
    /// One sentence about it.
    pub documentation: String,
}

/// A code of diagnostics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiagnosticCodeEntry {
    /// The code.
    pub code: String,
    /// What it means.
    pub meaning: String,
    /// What to do about it.
    pub remedy: String,
}

/// A position in a text, which may be broken.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct LanguagePositionRequest {
    /// YAML text of the playbook.
    pub text: String,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// What can be written at a position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletionResponse {
    /// Column where the typed word begins, which a completion replaces up to the position.
    pub start_column: u32,
    /// The completions, the most useful first; at most 300.
    pub completions: Vec<CompletionEntry>,
    /// Whether there are no others. If not, a longer word leads to others.
    pub is_complete: bool,
}

/// Something that can be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CompletionEntry {
    /// The word.
    pub label: String,
    /// What it is.
    pub kind: CompletionEntryKind,
    /// Its type and default; may be empty.
    pub detail: String,
    /// One sentence about it; may be empty.
    pub documentation: String,
    /// What replaces the typed word. Its lines are indented.
    pub insert: String,
}

/// What a completion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionEntryKind {
    /// A key of a map.
    Key,
    /// A value of a key.
    Value,
    /// A name that the playbook, the catalog or the server defines.
    Name,
    /// A filter of templates.
    Filter,
    /// A test of templates.
    Test,
    /// A function of templates.
    Function,
}

/// The meaning of the word at a position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoverResponse {
    /// The description; null if the word has no meaning to the language.
    pub hover: Option<HoverEntry>,
}

/// The description of a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoverEntry {
    /// Column where the word begins.
    pub start_column: u32,
    /// Column after the word.
    pub end_column: u32,
    /// The word, with its type.
    pub title: String,
    /// One sentence about it.
    pub documentation: String,
    /// What applies without it.
    pub default: Option<String>,
    /// The values that it accepts, if they are a fixed set.
    pub values: Vec<String>,
}
