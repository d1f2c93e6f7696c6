//! `spec.result`, also written `output`: how a task's result is stored.

use model::id::Name;
use model::manifest::{Accumulate, CombineStrategy};
use model::playbook::{ResultControl, SelectEntry};
use model::result_ref::BodyScope;
use serde_json_path::JsonPath;

use crate::playbook::read::key_tables::{ACCUMULATE, RESULT, RESULT_STORE, SELECT};
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::yaml::{MapEntry, Node, NodeValue};

pub(crate) const SCOPES: &[(&str, BodyScope)] = &[
    ("step", BodyScope::Step),
    ("execution", BodyScope::Execution),
    ("workflow", BodyScope::Workflow),
    ("permanent", BodyScope::Permanent),
];

/// Names of stores, each with its canonical name.
pub(crate) const STORES: &[(&str, &str)] = &[
    ("auto", "auto"),
    ("inline", "inline"),
    ("memory", "inline"),
    ("postgres", "postgres"),
    ("db", "postgres"),
    ("nats_kv", "nats_kv"),
    ("kv", "nats_kv"),
    ("nats_object", "nats_object"),
    ("s3", "s3"),
    ("minio", "s3"),
    ("gcs", "gcs"),
    ("pvc", "pvc"),
    ("file", "pvc"),
    ("disk", "disk"),
    ("object", "disk"),
];

pub(crate) const STRATEGIES: &[(&str, CombineStrategy)] = &[
    ("append", CombineStrategy::Append),
    ("merge", CombineStrategy::Merge),
    ("replace", CombineStrategy::Replace),
];

pub(crate) const COMPRESSIONS: &[(&str, &str)] =
    &[("none", "none"), ("gzip", "gzip"), ("zstd", "zstd"), ("auto", "auto")];

impl PlaybookReader {
    pub(crate) fn read_result(&mut self, node: &Node) -> ResultControl {
        let fields = self.check_map(node, &RESULT, "result");
        let mut control = ResultControl::default();
        let inline = fields.get("inline_max_bytes");
        control.inline_bytes_max = inline.and_then(|node| self.read_size(node, "inline_max_bytes"));
        let preview = fields.get("preview_max_bytes");
        control.preview_bytes_max = preview.and_then(|node| self.read_size(node, "preview_max_bytes"));
        if let Some(store) = fields.get("store") {
            self.read_result_store(store, &mut control);
        }
        self.read_retention(&fields, &mut control);
        if let Some(select) = fields.entry("select") {
            control.select = self.read_select(select);
        }
        control.accumulate = fields.get("accumulate").and_then(|node| self.read_accumulate(node));
        control
    }

    fn read_result_store(&mut self, node: &Node, control: &mut ResultControl) {
        if node.as_map().is_none() {
            control.store = self.read_store_kind(node, "store");
            return;
        }
        let fields = self.check_map(node, &RESULT_STORE, "result.store");
        let kind = fields.get("kind");
        control.store = kind.and_then(|kind| self.read_store_kind(kind, "store.kind"));
        self.read_retention(&fields, control);
    }

    /// Reads the name of a store. The first use of the alias `object` is reported with a warning.
    fn read_store_kind(&mut self, node: &Node, subject: &str) -> Option<Name> {
        let kind = self.read_word(node, subject, STORES)?;
        if node.as_str() == Some("object") && !self.has_reported("W218") {
            let message = "the store name `object` is an alias of `disk`";
            let warning = self.diagnostic("W218", message, node.span);
            self.report(warning.with_label("write `disk`"));
        }
        Some(kind.into())
    }

    fn read_retention(&mut self, fields: &CheckedMap<'_>, control: &mut ResultControl) {
        if let Some(scope) = fields.get("scope") {
            control.scope = self.read_word(scope, "scope", SCOPES);
        }
        if let Some(ttl) = fields.get("ttl") {
            control.ttl = self.read_duration(ttl, "ttl");
        }
        if let Some(compression) = fields.get("compression") {
            let codec_name = self.read_word(compression, "compression", COMPRESSIONS);
            control.compression = codec_name.map(Into::into);
        }
    }

    fn read_accumulate(&mut self, node: &Node) -> Option<Accumulate> {
        let fields = self.check_map(node, &ACCUMULATE, "accumulate");
        let strategy = match fields.get("strategy") {
            Some(strategy) => self.read_word(strategy, "strategy", STRATEGIES)?,
            None => CombineStrategy::default(),
        };
        let path = fields.get("merge_path");
        let path = path.and_then(|path| {
            let text = self.read_text(path, "merge_path")?;
            self.read_json_path(path, &text)
        });
        Some(Accumulate {
            strategy,
            merge_path: path,
        })
    }

    /// Reads a list of paths or of `{path, as}`, or a map of names and paths.
    pub(crate) fn read_select(&mut self, entry: &MapEntry) -> Vec<SelectEntry> {
        let (key, node) = (&*entry.key, &entry.value);
        match &node.value {
            NodeValue::List(items) => {
                let items = items.iter();
                items.filter_map(|item| self.read_select_entry(item)).collect()
            }
            NodeValue::Map(pairs) if pairs.iter().all(is_threshold) && !pairs.is_empty() => {
                let message = format!("`{key}` with a size threshold has no effect here");
                let warning = self
                    .diagnostic("W230", message, entry.span)
                    .with_label("it configures another runtime; use a list of paths to select fields");
                self.report(warning);
                Vec::new()
            }
            NodeValue::Map(pairs) if is_one_selection(pairs) => self.read_select_entry(node).into_iter().collect(),
            NodeValue::Map(pairs) => {
                let pairs = pairs.iter();
                pairs.filter_map(|pair| self.read_select_pair(pair)).collect()
            }
            NodeValue::Null => Vec::new(),
            _ => {
                let expected = "a list of paths or of `{path, as}`, or a map of names and paths";
                self.report_wrong_type(node, key, expected);
                Vec::new()
            }
        }
    }

    /// Reads one `name: path` of a map.
    fn read_select_pair(&mut self, pair: &MapEntry) -> Option<SelectEntry> {
        let path = self.read_text(&pair.value, &format!("the path of `{}`", pair.key))?;
        Some(SelectEntry {
            name: pair.key.to_string().into(),
            path: self.read_json_path(&pair.value, &path)?,
        })
    }

    fn read_select_entry(&mut self, node: &Node) -> Option<SelectEntry> {
        if let Some(path) = node.as_str() {
            return Some(SelectEntry {
                name: last_path_name(path).into(),
                path: self.read_json_path(node, path)?,
            });
        }
        let fields = self.check_map(node, &SELECT, "select");
        let Some(path) = fields.get("path") else {
            if node.as_map().is_some() {
                self.report_missing_key("path", "select", node.span, "path: $.data.count");
            }
            return None;
        };
        let text = self.read_text(path, "path")?;
        let name = match fields.get("as") {
            Some(name) => self.read_name(name, "as")?,
            None => last_path_name(&text).into(),
        };
        Some(SelectEntry {
            path: self.read_json_path(path, &text)?,
            name,
        })
    }

    /// Reads a path; `a.b[0]` is short for `$.a.b[0]`.
    fn read_json_path(&mut self, node: &Node, text: &str) -> Option<String> {
        let path = match text.chars().next() {
            Some('$') => text.to_owned(),
            Some('[') => format!("${text}"),
            _ => format!("$.{text}"),
        };
        if let Err(error) = JsonPath::parse(&path) {
            let message = format!("`{text}` is not a JSONPath: {error}");
            self.report_error("E0105", message, node.span, "write a path such as `$.data.items[0]`");
            return None;
        }
        Some(path)
    }
}

/// Whether a key is a size threshold of another runtime.
fn is_threshold(pair: &MapEntry) -> bool {
    matches!(&*pair.key, "strategy" | "threshold_kb" | "threshold_bytes")
}

/// Whether a map is a single `{path, as}` without a list.
fn is_one_selection(pairs: &[MapEntry]) -> bool {
    let has = |key: &str| pairs.iter().any(|pair| &*pair.key == key);
    pairs.len() == 2 && has("path") && has("as")
}

/// The default name of a path: its last name.
fn last_path_name(path: &str) -> &str {
    let is_name = |part: &&str| part.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut parts = path.split(['.', '[', ']', '\'', '"']);
    parts.rfind(is_name).unwrap_or("value")
}
