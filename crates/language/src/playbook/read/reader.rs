//! Shared state of the readers: the diagnostics, the current step, and maps with known keys.

use std::collections::BTreeMap;

use model::source::{SourceText, Span};

use crate::diagnostic::Diagnostic;
use crate::playbook::read::similar::find_nearest;
use crate::playbook::read::template_uses::{TemplateSite, TemplateUse};
use crate::yaml::{MapEntry, Node};

/// Maximum number of diagnostics.
const DIAGNOSTICS_MAX: usize = 100;
/// Maximum size that inherited layers and workbook tasks may add to a playbook, in units of a node's weight.
const INHERITED_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of templates, because compiled templates are large.
const TEMPLATES_MAX: usize = 10_000;

/// Reads one document.
pub(crate) struct PlaybookReader {
    pub(crate) source: SourceText,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) uses: Vec<TemplateUse>,
    pub(crate) step: Option<usize>,
    pub(crate) site: TemplateSite,
    /// The span of each jump's target, by the first byte of its rule.
    pub(crate) jumps: BTreeMap<u32, Span>,
    inherited: usize,
    templates: usize,
}

/// The keys that a map may have at one position of the language.
#[derive(Clone, Copy)]
pub(crate) struct KeyTable<'a> {
    /// The name of the map, as in "step takes: …".
    pub(crate) noun: &'a str,
    /// Canonical names, each with its other spellings.
    pub(crate) keys: &'a [(&'a str, &'a [&'a str])],
    /// Keys that are rejected, each with a replacement.
    pub(crate) refused: &'a [(&'a str, &'a str)],
    /// Keys that configure another runtime: accepted without effect.
    pub(crate) ignored: &'a [&'a str],
}

/// A map whose keys have been checked against a shape.
pub(crate) struct CheckedMap<'n> {
    entries: Vec<(String, &'n MapEntry)>,
    /// Keys that were reported as errors.
    reported_keys: Vec<&'n str>,
    pub(crate) span: Span,
}

impl<'n> CheckedMap<'n> {
    /// Returns the value of a key by canonical name, unless it is null.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entry(name)
            .map(|entry| &entry.value)
            .filter(|value| !value.is_null())
    }

    /// Returns the entry of a key by canonical name.
    pub(crate) fn entry(&self, name: &str) -> Option<&'n MapEntry> {
        let mut entries = self.entries.iter();
        entries
            .find(|(entry_key, _)| entry_key == name)
            .map(|(_, entry)| *entry)
    }

    /// Whether any key was reported; a missing key may be one of them.
    pub(crate) fn has_reported_keys(&self) -> bool {
        !self.reported_keys.is_empty()
    }

    /// Whether a reported key is probably a misspelling of `name`.
    pub(crate) fn is_misspelled(&self, name: &str) -> bool {
        self.reported_keys.iter().any(|bad| find_nearest(bad, [name]).is_some())
    }

    /// Iterates over all entries with their canonical names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'n MapEntry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), *entry))
    }
}

impl PlaybookReader {
    pub(crate) fn new(source: SourceText) -> Self {
        Self {
            source,
            diagnostics: Vec::new(),
            uses: Vec::new(),
            step: None,
            site: TemplateSite::Call,
            jumps: BTreeMap::new(),
            inherited: 0,
            templates: 0,
        }
    }

    /// Creates a diagnostic at `span` without reporting it.
    pub(crate) fn diagnostic(&self, code: &'static str, message: impl Into<String>, span: Span) -> Diagnostic {
        Diagnostic::new(code, message, span, &self.source)
    }

    /// Reports a diagnostic once, because layers that several tasks inherit are read for each of them.
    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        let has_capacity = !self.is_full();
        let is_first_error = diagnostic.is_error() && !self.has_errors();
        if (has_capacity || is_first_error) && !self.diagnostics.contains(&diagnostic) {
            self.diagnostics.push(diagnostic);
        }
    }

    /// Whether the maximum number of diagnostics is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.diagnostics.len() >= DIAGNOSTICS_MAX
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// Whether a diagnostic of this code was reported.
    pub(crate) fn has_reported(&self, code: &str) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.code == code)
    }

    /// Reports an error whose label gives the remedy.
    pub(crate) fn report_error(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) {
        let diagnostic = self.diagnostic(code, message, span).with_label(label);
        self.report(diagnostic);
    }

    /// Returns the known word that is most similar to `word`; `None` once the maximum number of diagnostics is reached.
    pub(crate) fn suggest<'a>(&self, word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
        if self.is_full() {
            return None;
        }
        find_nearest(word, candidates)
    }

    /// Whether another copy of `node` may be added; reports an error if not.
    pub(crate) fn may_inherit(&mut self, node: &Node) -> bool {
        self.inherited = self.inherited.saturating_add(node.weight());
        let fits = self.inherited <= INHERITED_MAX;
        if !fits {
            let message = "the playbook is too large after its defaults and workbook tasks are expanded";
            self.report_error("E0005", message, node.span, "this is expanded too often");
        }
        fits
    }

    /// Whether another template may be compiled; reports an error if not.
    pub(crate) fn may_compile(&mut self, node: &Node) -> bool {
        self.templates += 1;
        if self.templates == TEMPLATES_MAX + 1 {
            let message = format!("the playbook has more than {TEMPLATES_MAX} templates");
            self.report_error("E0005", message, node.span, "this one exceeds the limit");
        }
        self.templates <= TEMPLATES_MAX
    }

    /// Reads a map with the keys of a table; `title` identifies it in messages, as in "step `fetch`".
    pub(crate) fn check_map<'n>(&mut self, node: &'n Node, shape: &KeyTable<'_>, title: &str) -> CheckedMap<'n> {
        let mut fields = CheckedMap {
            entries: Vec::new(),
            reported_keys: Vec::new(),
            span: node.span,
        };
        let Some(entries) = node.as_map() else {
            let message = format!("{title} must be a map, not {}", node.describe());
            let keys: Vec<_> = shape.keys.iter().map(|(name, _)| *name).collect();
            self.report_error("E0101", message, node.span, format!("takes: {}", keys.join(" ")));
            return fields;
        };
        for entry in entries {
            if let Some(name) = canonical_key(shape, &entry.key) {
                self.add_entry(&mut fields, name, entry);
            } else if shape.ignored.contains(&&*entry.key) {
                self.warn_ignored_key(entry, title);
            } else {
                fields.reported_keys.push(&entry.key);
                self.report_unknown_key(entry, shape, title);
            }
        }
        fields
    }

    fn add_entry<'n>(&mut self, fields: &mut CheckedMap<'n>, name: &str, entry: &'n MapEntry) {
        if let Some(first) = fields.entry(name) {
            let message = format!("`{}` and `{}` are two spellings of the same key", first.key, entry.key);
            self.report_error("E0103", message, entry.span, "keep one of them");
            return;
        }
        fields.entries.push((name.to_owned(), entry));
    }

    /// Warns about a key that only another runtime uses.
    pub(crate) fn warn_ignored_key(&mut self, entry: &MapEntry, title: &str) {
        let message = format!("`{}` of {title} has no effect here", entry.key);
        let warning = self
            .diagnostic("W230", message, entry.span)
            .with_label("it configures another runtime; remove it");
        self.report(warning);
    }

    /// Reports a key that `shape` does not have.
    pub(crate) fn report_unknown_key(&mut self, entry: &MapEntry, shape: &KeyTable<'_>, title: &str) {
        let key = &*entry.key;
        if let Some((_, advice)) = shape.refused.iter().find(|(name, _)| *name == key) {
            let message = format!("`{key}` is not part of {title}");
            self.report_error("E0106", message, entry.span, *advice);
            return;
        }
        let names = shape.keys.iter().map(|(name, _)| *name);
        let spellings = shape.keys.iter().flat_map(|(_, aliases)| aliases.iter().copied());
        let valid_keys = names.clone().collect::<Vec<_>>().join(" ");
        let valid_keys = format!("({} takes: {valid_keys})", shape.noun);
        let label = match self.suggest(key, names.chain(spellings)) {
            Some(suggestion) => format!("did you mean `{suggestion}`?     {valid_keys}"),
            None => valid_keys,
        };
        let message = format!("unknown field `{key}` in {title}");
        self.report_error("E0107", message, entry.span, label);
    }

    /// Reports a missing required key.
    pub(crate) fn report_missing_key(&mut self, key: &str, title: &str, span: Span, example: &str) {
        let message = format!("{title} has no `{key}`");
        self.report_error("E0102", message, span, format!("add `{example}`"));
    }
}

fn canonical_key<'s>(shape: &KeyTable<'s>, key: &str) -> Option<&'s str> {
    let mut keys = shape.keys.iter();
    keys.find(|(name, aliases)| *name == key || aliases.contains(&key))
        .map(|(name, _)| *name)
}
