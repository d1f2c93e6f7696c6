//! Resolves the entries of a playbook's keychain in order; an entry can use earlier ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::playbook::credentials::{EntryRead, entries_read};
use model::playbook::{KeychainEntry, KeychainKind};
use model::template::{Data, Scope, Tree};
use serde_json::{Map, Value};

use crate::keychain::cached::{Kept, Owner};
use crate::keychain::declared::Declared;
use crate::keychain::error::Error;
use crate::keychain::lookup::Keychain;

/// Maximum size of a file that an entry reads.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Required prefix of variables that entries read.
pub(super) const ENV_PREFIX: &str = "NOETL_SECRET_";

/// Resolves names for one execution.
pub(super) struct Resolving<'k> {
    pub(super) keychain: &'k Keychain,
    declared: Arc<Declared>,
    pub(super) owner: Owner,
    scope: Scope,
    /// Values resolved so far.
    done: Map<String, Value>,
    /// Credentials that were decrypted.
    pub(super) opened: BTreeSet<String>,
}

impl<'k> Resolving<'k> {
    pub(super) fn new(
        keychain: &'k Keychain,
        declared: Arc<Declared>,
        owner: Owner,
        scope: Scope,
    ) -> Self {
        Self {
            keychain,
            declared,
            owner,
            scope,
            done: Map::new(),
            opened: BTreeSet::new(),
        }
    }

    /// Resolves a name to the value of a keychain entry or credential.
    pub(super) async fn resolve(&mut self, name: &str) -> Result<Kept, Error> {
        let declared = Arc::clone(&self.declared);
        let position = declared
            .entries
            .iter()
            .position(|entry| entry.name == *name);
        match position {
            Some(position) => self.entry(position).await,
            None => Ok(lasting(self.credential(name).await?)),
        }
    }

    async fn credential(&mut self, name: &str) -> Result<Value, Error> {
        self.opened.insert(name.to_owned());
        self.keychain.credential(name).await
    }

    async fn entry(&mut self, position: usize) -> Result<Kept, Error> {
        let declared = Arc::clone(&self.declared);
        let entry = &declared.entries[position];
        let name = entry.name.as_str();
        let path = self.owner.path.clone();
        let (set, shared) = match self.keychain.kept_for_all(&path, name).await? {
            Some(kept) if kept.made_of.is_none() => (Some(kept), None),
            shared => (None, shared),
        };
        if let Some(kept) = set {
            return Ok(self.resolved(entry, kept));
        }
        let fields = self.fields(position).await?;
        let kept = match entry.kind {
            KeychainKind::Credential => {
                let named = text(&fields, &["credential", "ref", "key", "auth"]);
                let named = named.unwrap_or(name);
                let opened = self.credential(named).await;
                lasting(opened.map_err(|error| untold(entry, named, error))?)
            }
            KeychainKind::Static => lasting(given(fields)),
            KeychainKind::Env => lasting(self.each(entry, &fields, |this, variable| {
                let allowed = variable.starts_with(ENV_PREFIX);
                let value = this.keychain.config.env.get(variable).filter(|_| allowed);
                let value = value.map(|value| Value::from(value.as_str()));
                value.ok_or_else(|| {
                    let variable = shown(entry, variable);
                    format!("variable {variable} is not set on the server; its name must start with {ENV_PREFIX}")
                })
            })?),
            KeychainKind::File => {
                lasting(self.each(entry, &fields, |this, path| this.file(entry, path))?)
            }
            KeychainKind::Token | KeychainKind::Vault => {
                self.fetched(entry, &fields, shared).await?
            }
        };
        Ok(self.resolved(entry, kept))
    }

    fn resolved(&mut self, entry: &KeychainEntry, kept: Kept) -> Kept {
        self.done.insert(entry.name.to_string(), kept.value.clone());
        kept
    }

    /// Renders an entry's fields; resolves the entries that they read first.
    async fn fields(&mut self, position: usize) -> Result<Map<String, Value>, Error> {
        let declared = Arc::clone(&self.declared);
        let entry = &declared.entries[position];
        for name in read_by(entry) {
            if self.done.contains_key(&name) {
                continue;
            }
            let at = declared
                .entries
                .iter()
                .position(|known| known.name == *name);
            let value = match at {
                Some(before) if before < position => Box::pin(self.entry(before)).await?.value,
                Some(_) => {
                    let why = format!("it uses `{name}`, which must be declared before it");
                    return Err(unresolved(entry.name.as_str(), why));
                }
                None => self.credential(&name).await?,
            };
            self.done.insert(name, value);
        }
        let mut scope = self.scope.clone();
        scope.keychain = Some(Data::new(Value::Object(self.done.clone())));
        scope.reveals_secrets = true;
        let mut fields = Map::new();
        for (key, tree) in &entry.fields {
            // The error of a template may quote its input.
            let why = |_| {
                let why = format!("cannot render its `{key}`");
                unresolved(entry.name.as_str(), why)
            };
            let rendered = tree.render(&scope).map_err(why)?;
            fields.insert(key.clone(), rendered.value);
        }
        Ok(fields)
    }

    /// Reads a map of fields to sources, or a single source.
    fn each(
        &self,
        entry: &KeychainEntry,
        fields: &Map<String, Value>,
        read: impl Fn(&Self, &str) -> Result<Value, String>,
    ) -> Result<Value, Error> {
        let name = entry.name.as_str();
        let read = |place: &str| read(self, place).map_err(|why| unresolved(name, why));
        if let Some(Value::Object(map)) = fields.get("map").or_else(|| fields.get("data")) {
            let mut all = Map::new();
            for (key, place) in map {
                let place = place.as_str().unwrap_or_default();
                all.insert(key.clone(), read(place)?);
            }
            return Ok(Value::Object(all));
        }
        let keys = ["variable", "var", "env", "path", "file", "key"];
        let Some(place) = text(fields, &keys) else {
            let why = "it needs a `map`, a `variable` or a `path`";
            return Err(unresolved(name, why.to_owned()));
        };
        Ok(match read(place)? {
            Value::Object(map) => Value::Object(map),
            value => Value::Object(Map::from_iter([("value".to_owned(), value)])),
        })
    }

    /// Reads a file in the operator's directory: returns a map if it contains a JSON object, otherwise its text.
    fn file(&self, entry: &KeychainEntry, path: &str) -> Result<Value, String> {
        let Some(folder) = &self.keychain.config.files else {
            return Err("NOETL_SECRETS_DIR is not set on the server".to_owned());
        };
        let told = shown(entry, path);
        let missing = || format!("file {told} not found in NOETL_SECRETS_DIR");
        let folder = folder.canonicalize().map_err(|_| missing())?;
        let file = folder.join(path).canonicalize().map_err(|_| missing())?;
        if !file.starts_with(&folder) {
            return Err(missing());
        }
        let size = file.metadata().map(|meta| meta.len());
        if size.map_err(|_| missing())? > FILE_BYTES_MAX {
            return Err(format!("file {told} exceeds {FILE_BYTES_MAX} bytes"));
        }
        let text = std::fs::read_to_string(&file).map_err(|_| missing())?;
        let text = text.trim_end_matches(['\r', '\n']);
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Value::Object(map)),
            _ => Ok(text.into()),
        }
    }
}

/// A value without an expiry.
fn lasting(value: Value) -> Kept {
    Kept {
        value,
        expires_at: None,
        made_of: None,
    }
}

fn given(mut fields: Map<String, Value>) -> Value {
    for key in ["data", "map", "value"] {
        if let Some(Value::Object(map)) = fields.get(key) {
            return Value::Object(map.clone());
        }
    }
    fields.remove("scope");
    Value::Object(fields)
}

/// Entries and credentials that an entry's templates read.
fn read_by(entry: &KeychainEntry) -> Vec<String> {
    let mut names = Vec::new();
    for tree in entry.fields.values() {
        tree.walk(&mut |template| {
            names.extend(
                entries_read(template)
                    .into_iter()
                    .filter_map(|read| match read {
                        EntryRead::Named(name) => Some(name),
                        EntryRead::Any => None,
                    }),
            );
        });
    }
    names
}

pub(super) fn unresolved(name: &str, why: impl Into<String>) -> Error {
    Error::Unresolved {
        name: name.to_owned(),
        why: why.into(),
    }
}

/// A source in error messages: shown if it is written literally in the playbook. The result of a template may be a
/// secret.
pub(super) fn shown(entry: &KeychainEntry, place: &str) -> String {
    if is_shown(entry, place) {
        format!("`{place}`")
    } else {
        "(from a template)".to_owned()
    }
}

fn is_shown(entry: &KeychainEntry, place: &str) -> bool {
    let mut trees = entry.fields.values();
    entry.name == *place || trees.any(|tree| is_written(tree, place))
}

fn is_written(tree: &Tree, text: &str) -> bool {
    match tree {
        Tree::Literal(value) => holds(value, text),
        Tree::Template(_) => false,
        Tree::List(trees) => trees.iter().any(|tree| is_written(tree, text)),
        Tree::Map(pairs) => pairs.iter().any(|(_, tree)| is_written(tree, text)),
    }
}

fn holds(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| holds(item, text)),
        Value::Object(map) => map.values().any(|value| holds(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces an error that would reveal the result of a template.
fn untold(entry: &KeychainEntry, name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(_) if !is_shown(entry, name) => {
            let why = format!("credential {} not found", shown(entry, name));
            unresolved(entry.name.as_str(), why)
        }
        error => error,
    }
}

pub(super) fn text<'m>(fields: &'m Map<String, Value>, keys: &[&str]) -> Option<&'m str> {
    let mut found = keys.iter().filter_map(|key| fields.get(*key));
    found.find_map(Value::as_str)
}
