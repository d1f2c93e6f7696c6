//! Converts the reference of the language, and completions and hover texts, to the types of the API.

use language::completion::{Completion, CompletionKind, CompletionList, Hover};
use language::diagnostic::CODES;
use language::playbook::kinds::{KINDS, KindSpec};
use language::reference::{
    FILTER_DOCS, FUNCTION_DOCS, KeyDoc, NAMES, NameDoc, SECTIONS, SectionDoc, TEST_DOCS, WordDoc, find_kind_doc,
};
use wire::api::{
    CompletionEntry, CompletionEntryKind, CompletionResponse, DiagnosticCodeEntry, HoverEntry, LanguageKey,
    LanguageReference, LanguageSection, LanguageWord, TemplateNameEntry, ToolKindEntry,
};

/// The reference of the language.
pub(crate) fn build_language_reference() -> LanguageReference {
    let codes = CODES.iter().map(|code| DiagnosticCodeEntry {
        code: code.code.to_owned(),
        meaning: code.meaning.to_owned(),
        remedy: code.remedy.to_owned(),
    });
    LanguageReference {
        sections: SECTIONS.iter().map(section_entry).collect(),
        tool_kinds: KINDS.iter().map(kind_entry).collect(),
        template_names: NAMES.iter().map(name_entry).collect(),
        filters: word_entries(FILTER_DOCS),
        tests: word_entries(TEST_DOCS),
        functions: word_entries(FUNCTION_DOCS),
        diagnostic_codes: codes.collect(),
    }
}

fn section_entry(section: &SectionDoc) -> LanguageSection {
    let keys = section.keys.iter().map(|doc| key_entry(doc, section.aliases(doc.key)));
    LanguageSection {
        name: section.name.to_owned(),
        path: section.path.to_owned(),
        keys: keys.collect(),
    }
}

fn kind_entry(kind: &KindSpec) -> ToolKindEntry {
    let doc = find_kind_doc(kind.name);
    let keys = doc.map_or(&[][..], |doc| doc.keys).iter();
    let keys = keys.map(|key| key_entry(key, kind.key(key.key).map_or(&[], |spec| spec.aliases)));
    ToolKindEntry {
        kind: kind.name.to_owned(),
        documentation: doc.map_or("", |doc| doc.text).to_owned(),
        keys: keys.collect(),
        one_of: to_strings(kind.one_of),
    }
}

fn key_entry(doc: &KeyDoc, aliases: &[&str]) -> LanguageKey {
    LanguageKey {
        key: doc.key.to_owned(),
        aliases: to_strings(aliases),
        type_: doc.value.describe().to_owned(),
        values: to_strings(&doc.value.words()),
        default: non_empty(doc.default),
        section: doc.value.section().map(str::to_owned),
        documentation: doc.text.to_owned(),
    }
}

fn name_entry(doc: &NameDoc) -> TemplateNameEntry {
    TemplateNameEntry {
        name: doc.name.to_owned(),
        places: doc.sites.iter().map(|site| site.name().to_owned()).collect(),
        fields: to_strings(doc.fields),
        documentation: doc.text.to_owned(),
    }
}

fn word_entries(docs: &[WordDoc]) -> Vec<LanguageWord> {
    let entries = docs.iter().map(|doc| LanguageWord {
        name: doc.name.to_owned(),
        documentation: doc.text.to_owned(),
    });
    entries.collect()
}

/// Completions as the API returns them.
pub(crate) fn completion_response(list: CompletionList) -> CompletionResponse {
    CompletionResponse {
        start_column: list.start.column,
        completions: list.completions.into_iter().map(completion_entry).collect(),
        is_complete: list.is_complete,
    }
}

fn completion_entry(completion: Completion) -> CompletionEntry {
    CompletionEntry {
        label: completion.label,
        kind: match completion.kind {
            CompletionKind::Key => CompletionEntryKind::Key,
            CompletionKind::Value => CompletionEntryKind::Value,
            CompletionKind::Name => CompletionEntryKind::Name,
            CompletionKind::Filter => CompletionEntryKind::Filter,
            CompletionKind::Test => CompletionEntryKind::Test,
            CompletionKind::Function => CompletionEntryKind::Function,
        },
        detail: completion.detail,
        documentation: completion.text,
        insert: completion.insert,
    }
}

/// A description as the API returns it.
pub(crate) fn hover_entry(hover: Hover) -> HoverEntry {
    HoverEntry {
        start_column: hover.start.column,
        end_column: hover.end.column,
        title: hover.title,
        documentation: hover.text,
        default: non_empty(&hover.default),
        values: hover.values,
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn to_strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
