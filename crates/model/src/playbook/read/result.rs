//! `spec.result`, also written `output`: how a task's result is stored.

use serde_json_path::JsonPath;

use crate::id::Name;
use crate::manifest::{Accumulate, Strategy};
use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{ACCUMULATE, RESULT, RESULT_STORE, SELECT};
use crate::playbook::{ResultControl, Select};
use crate::result_ref::Scope;
use crate::yaml::{Entry, Node, Value};

const SCOPES: &[(&str, Scope)] = &[
    ("step", Scope::Step),
    ("execution", Scope::Execution),
    ("workflow", Scope::Workflow),
    ("permanent", Scope::Permanent),
];

/// Names of stores, each with its canonical name.
const STORES: &[(&str, &str)] = &[
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

const STRATEGIES: &[(&str, Strategy)] = &[
    ("append", Strategy::Append),
    ("merge", Strategy::Merge),
    ("replace", Strategy::Replace),
];

const COMPRESSIONS: &[(&str, &str)] = &[
    ("none", "none"),
    ("gzip", "gzip"),
    ("zstd", "zstd"),
    ("auto", "auto"),
];

impl Reader {
    pub(crate) fn result(&mut self, node: &Node) -> ResultControl {
        let fields = self.fields(node, &RESULT, "result");
        let mut control = ResultControl::default();
        let inline = fields.get("inline_max_bytes");
        control.inline_bytes_max = inline.and_then(|node| self.size(node, "inline_max_bytes"));
        let preview = fields.get("preview_max_bytes");
        control.preview_bytes_max = preview.and_then(|node| self.size(node, "preview_max_bytes"));
        if let Some(store) = fields.get("store") {
            self.result_store(store, &mut control);
        }
        self.life(&fields, &mut control);
        if let Some(select) = fields.entry("select") {
            control.select = self.select(select);
        }
        control.accumulate = fields
            .get("accumulate")
            .and_then(|node| self.accumulate(node));
        control
    }

    fn result_store(&mut self, node: &Node, control: &mut ResultControl) {
        if node.as_map().is_none() {
            control.store = self.store_kind(node, "store");
            return;
        }
        let fields = self.fields(node, &RESULT_STORE, "result.store");
        let kind = fields.get("kind");
        control.store = kind.and_then(|kind| self.store_kind(kind, "store.kind"));
        self.life(&fields, control);
    }

    /// Reads the name of a store. The first use of the alias `object` is reported with a warning.
    fn store_kind(&mut self, node: &Node, what: &str) -> Option<Name> {
        let kind = self.word(node, what, STORES)?;
        if node.as_str() == Some("object") && !self.has_said("W218") {
            let message = "the store name `object` is an alias of `disk`";
            let warning = self.diagnostic("W218", message, node.span);
            self.report(warning.label("write `disk`"));
        }
        Some(kind.into())
    }

    fn life(&mut self, fields: &Fields<'_>, control: &mut ResultControl) {
        if let Some(scope) = fields.get("scope") {
            control.scope = self.word(scope, "scope", SCOPES);
        }
        if let Some(ttl) = fields.get("ttl") {
            control.ttl = self.duration(ttl, "ttl");
        }
        if let Some(compression) = fields.get("compression") {
            let word = self.word(compression, "compression", COMPRESSIONS);
            control.compression = word.map(Into::into);
        }
    }

    fn accumulate(&mut self, node: &Node) -> Option<Accumulate> {
        let fields = self.fields(node, &ACCUMULATE, "accumulate");
        let strategy = match fields.get("strategy") {
            Some(strategy) => self.word(strategy, "strategy", STRATEGIES)?,
            None => Strategy::default(),
        };
        let path = fields.get("merge_path");
        let path = path.and_then(|path| {
            let text = self.text(path, "merge_path")?;
            self.json_path(path, &text)
        });
        Some(Accumulate {
            strategy,
            merge_path: path,
        })
    }

    /// Reads a list of paths or of `{path, as}`, or a map of names and paths.
    pub(crate) fn select(&mut self, entry: &Entry) -> Vec<Select> {
        let (key, node) = (&*entry.key, &entry.value);
        match &node.value {
            Value::List(items) => {
                let items = items.iter();
                items.filter_map(|item| self.selected(item)).collect()
            }
            Value::Map(pairs) if pairs.iter().all(is_threshold) && !pairs.is_empty() => {
                let message = format!("`{key}` with a size threshold has no effect here");
                let warning = self
                    .diagnostic("W230", message, entry.span)
                    .label("it configures another runtime; use a list of paths to select fields");
                self.report(warning);
                Vec::new()
            }
            Value::Map(pairs) if is_one_selection(pairs) => {
                self.selected(node).into_iter().collect()
            }
            Value::Map(pairs) => {
                let pairs = pairs.iter();
                pairs.filter_map(|pair| self.selected_as(pair)).collect()
            }
            Value::Null => Vec::new(),
            _ => {
                let wanted = "a list of paths or of `{path, as}`, or a map of names and paths";
                self.wrong_type(node, key, wanted);
                Vec::new()
            }
        }
    }

    /// Reads one `name: path` of a map.
    fn selected_as(&mut self, pair: &Entry) -> Option<Select> {
        let path = self.text(&pair.value, &format!("the path of `{}`", pair.key))?;
        Some(Select {
            name: pair.key.to_string().into(),
            path: self.json_path(&pair.value, &path)?,
        })
    }

    fn selected(&mut self, node: &Node) -> Option<Select> {
        if let Some(path) = node.as_str() {
            return Some(Select {
                name: last_name(path).into(),
                path: self.json_path(node, path)?,
            });
        }
        let fields = self.fields(node, &SELECT, "select");
        let Some(path) = fields.get("path") else {
            if node.as_map().is_some() {
                self.missing("path", "select", node.span, "path: $.data.count");
            }
            return None;
        };
        let text = self.text(path, "path")?;
        let name = match fields.get("as") {
            Some(name) => self.name(name, "as")?,
            None => last_name(&text).into(),
        };
        Some(Select {
            path: self.json_path(path, &text)?,
            name,
        })
    }

    /// Reads a path; `a.b[0]` is short for `$.a.b[0]`.
    fn json_path(&mut self, node: &Node, text: &str) -> Option<String> {
        let path = match text.chars().next() {
            Some('$') => text.to_owned(),
            Some('[') => format!("${text}"),
            _ => format!("$.{text}"),
        };
        if let Err(error) = JsonPath::parse(&path) {
            let message = format!("`{text}` is not a JSONPath: {error}");
            self.error(
                "E0105",
                message,
                node.span,
                "write a path such as `$.data.items[0]`",
            );
            return None;
        }
        Some(path)
    }
}

/// Whether a key is a size threshold of another runtime.
fn is_threshold(pair: &Entry) -> bool {
    matches!(&*pair.key, "strategy" | "threshold_kb" | "threshold_bytes")
}

/// Whether a map is a single `{path, as}` without a list.
fn is_one_selection(pairs: &[Entry]) -> bool {
    let has = |key: &str| pairs.iter().any(|pair| &*pair.key == key);
    pairs.len() == 2 && has("path") && has("as")
}

/// The default name of a path: its last name.
fn last_name(path: &str) -> &str {
    let is_name = |part: &&str| part.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut parts = path.split(['.', '[', ']', '\'', '"']);
    parts.rfind(is_name).unwrap_or("value")
}
