//! Resolves the entries of a playbook's keychain in order; an entry can use earlier ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use language::playbook::credentials::{KeychainRead, keychain_reads};
use language::playbook::{KeychainEntry, KeychainKind};
use language::template::{LazyValue, Scope, Tree};
use serde_json::{Map, Value};

use crate::keychain::cache::{CachedValue, EntryOwner};
use crate::keychain::declared::DeclaredSecrets;
use crate::keychain::error::Error;
use crate::keychain::shared::Keychain;

/// Maximum size of a file that an entry reads.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Required prefix of variables that entries read.
pub(super) const ENV_PREFIX: &str = "NOETL_SECRET_";

/// Resolves names for one execution.
pub(super) struct EntryResolver<'k> {
    pub(super) keychain: &'k Keychain,
    declared_secrets: Arc<DeclaredSecrets>,
    pub(super) owner: EntryOwner,
    scope: Scope,
    /// Values resolved so far.
    resolved_values: Map<String, Value>,
    /// Credentials that were decrypted.
    pub(super) opened_credentials: BTreeSet<String>,
}

impl<'k> EntryResolver<'k> {
    pub(super) fn new(
        keychain: &'k Keychain,
        declared_secrets: Arc<DeclaredSecrets>,
        owner: EntryOwner,
        scope: Scope,
    ) -> Self {
        Self {
            keychain,
            declared_secrets,
            owner,
            scope,
            resolved_values: Map::new(),
            opened_credentials: BTreeSet::new(),
        }
    }

    /// Resolves a name to the value of a keychain entry or credential.
    pub(super) async fn resolve(&mut self, name: &str) -> Result<CachedValue, Error> {
        let declared = Arc::clone(&self.declared_secrets);
        let position = declared.entries.iter().position(|entry| entry.name == *name);
        match position {
            Some(position) => self.resolve_entry(position).await,
            None => Ok(permanent_value(self.resolve_credential(name).await?)),
        }
    }

    async fn resolve_credential(&mut self, name: &str) -> Result<Value, Error> {
        self.opened_credentials.insert(name.to_owned());
        self.keychain.credential(name).await
    }

    async fn resolve_entry(&mut self, position: usize) -> Result<CachedValue, Error> {
        let declared = Arc::clone(&self.declared_secrets);
        let entry = &declared.entries[position];
        let name = entry.name.as_str();
        let path = self.owner.path.clone();
        let (set, shared) = match self.keychain.shared_value(&path, name).await? {
            Some(cached) if cached.request_digest.is_none() => (Some(cached), None),
            shared => (None, shared),
        };
        if let Some(cached) = set {
            return Ok(self.add_resolved(entry, cached));
        }
        let fields = self.render_fields(position).await?;
        let cached = match entry.kind {
            KeychainKind::Credential => {
                let credential_name = text_field(&fields, &["credential", "ref", "key", "auth"]);
                let credential_name = credential_name.unwrap_or(name);
                let credential = self.resolve_credential(credential_name).await;
                permanent_value(credential.map_err(|error| hide_name(entry, credential_name, error))?)
            }
            KeychainKind::Static => permanent_value(static_value(fields)),
            KeychainKind::Env => permanent_value(self.read_each(entry, &fields, |this, variable| {
                let allowed = variable.starts_with(ENV_PREFIX);
                let value = this.keychain.config.env.get(variable).filter(|_| allowed);
                let value = value.map(|value| Value::from(value.as_str()));
                value.ok_or_else(|| {
                    let variable = display_location(entry, variable);
                    format!("variable {variable} is not set on the server; its name must start with {ENV_PREFIX}")
                })
            })?),
            KeychainKind::File => {
                permanent_value(self.read_each(entry, &fields, |this, path| this.read_file(entry, path))?)
            }
            KeychainKind::Token | KeychainKind::Vault => self.fetch_entry(entry, &fields, shared).await?,
        };
        Ok(self.add_resolved(entry, cached))
    }

    fn add_resolved(&mut self, entry: &KeychainEntry, cached: CachedValue) -> CachedValue {
        self.resolved_values
            .insert(entry.name.to_string(), cached.value.clone());
        cached
    }

    /// Renders an entry's fields; resolves the entries that they read first.
    async fn render_fields(&mut self, position: usize) -> Result<Map<String, Value>, Error> {
        let declared = Arc::clone(&self.declared_secrets);
        let entry = &declared.entries[position];
        for name in names_read_by(entry) {
            if self.resolved_values.contains_key(&name) {
                continue;
            }
            let read_position = declared.entries.iter().position(|earlier| earlier.name == *name);
            let value = match read_position {
                Some(before) if before < position => Box::pin(self.resolve_entry(before)).await?.value,
                Some(_) => {
                    let reason = format!("it uses `{name}`, which must be declared before it");
                    return Err(unresolved_error(entry.name.as_str(), reason));
                }
                None => self.resolve_credential(&name).await?,
            };
            self.resolved_values.insert(name, value);
        }
        let mut scope = self.scope.clone();
        scope.keychain = Some(LazyValue::new(Value::Object(self.resolved_values.clone())));
        scope.reveals_secrets = true;
        let mut fields = Map::new();
        for (key, tree) in &entry.fields {
            // The error of a template may quote its input.
            let reason = |_| {
                let reason = format!("cannot render its `{key}`");
                unresolved_error(entry.name.as_str(), reason)
            };
            let rendered = tree.render(&scope).map_err(reason)?;
            fields.insert(key.clone(), rendered.value);
        }
        Ok(fields)
    }

    /// Reads a map of fields to sources, or a single source.
    fn read_each(
        &self,
        entry: &KeychainEntry,
        fields: &Map<String, Value>,
        read: impl Fn(&Self, &str) -> Result<Value, String>,
    ) -> Result<Value, Error> {
        let name = entry.name.as_str();
        let read = |location: &str| read(self, location).map_err(|reason| unresolved_error(name, reason));
        if let Some(Value::Object(map)) = fields.get("map").or_else(|| fields.get("data")) {
            let mut all = Map::new();
            for (key, location) in map {
                let location = location.as_str().unwrap_or_default();
                all.insert(key.clone(), read(location)?);
            }
            return Ok(Value::Object(all));
        }
        let keys = ["variable", "var", "env", "path", "file", "key"];
        let Some(location) = text_field(fields, &keys) else {
            let reason = "it needs a `map`, a `variable` or a `path`";
            return Err(unresolved_error(name, reason.to_owned()));
        };
        Ok(match read(location)? {
            Value::Object(map) => Value::Object(map),
            value => Value::Object(Map::from_iter([("value".to_owned(), value)])),
        })
    }

    /// Reads a file in the operator's directory: returns a map if it contains a JSON object, otherwise its text.
    fn read_file(&self, entry: &KeychainEntry, path: &str) -> Result<Value, String> {
        let Some(folder) = &self.keychain.config.secrets_dir else {
            return Err("NOETL_SECRETS_DIR is not set on the server".to_owned());
        };
        let displayed_path = display_location(entry, path);
        let missing = || format!("file {displayed_path} not found in NOETL_SECRETS_DIR");
        let folder = folder.canonicalize().map_err(|_| missing())?;
        let file = folder.join(path).canonicalize().map_err(|_| missing())?;
        if !file.starts_with(&folder) {
            return Err(missing());
        }
        let size = file.metadata().map(|meta| meta.len());
        if size.map_err(|_| missing())? > FILE_BYTES_MAX {
            return Err(format!("file {displayed_path} exceeds {FILE_BYTES_MAX} bytes"));
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
fn permanent_value(value: Value) -> CachedValue {
    CachedValue {
        value,
        expires_at: None,
        request_digest: None,
    }
}

fn static_value(mut fields: Map<String, Value>) -> Value {
    for key in ["data", "map", "value"] {
        if let Some(Value::Object(map)) = fields.get(key) {
            return Value::Object(map.clone());
        }
    }
    fields.remove("scope");
    Value::Object(fields)
}

/// Entries and credentials that an entry's templates read.
pub(super) fn names_read_by(entry: &KeychainEntry) -> Vec<String> {
    let mut names = Vec::new();
    for tree in entry.fields.values() {
        tree.walk(&mut |template| {
            names.extend(keychain_reads(template).into_iter().filter_map(|read| match read {
                KeychainRead::Named(name) => Some(name),
                KeychainRead::Any => None,
            }));
        });
    }
    names
}

pub(super) fn unresolved_error(name: &str, reason: impl Into<String>) -> Error {
    Error::Unresolved {
        name: name.to_owned(),
        reason: reason.into(),
    }
}

/// A source in error messages: shown if it is written literally in the playbook. The result of a template may be a
/// secret.
pub(super) fn display_location(entry: &KeychainEntry, location: &str) -> String {
    if is_written_location(entry, location) {
        format!("`{location}`")
    } else {
        "(from a template)".to_owned()
    }
}

fn is_written_location(entry: &KeychainEntry, location: &str) -> bool {
    let mut trees = entry.fields.values();
    entry.name == *location || trees.any(|tree| is_written(tree, location))
}

fn is_written(tree: &Tree, text: &str) -> bool {
    match tree {
        Tree::Literal(value) => contains_text(value, text),
        Tree::Template(_) => false,
        Tree::List(trees) => trees.iter().any(|tree| is_written(tree, text)),
        Tree::Map(pairs) => pairs.iter().any(|(_, tree)| is_written(tree, text)),
    }
}

fn contains_text(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| contains_text(item, text)),
        Value::Object(map) => map.values().any(|value| contains_text(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Replaces an error that would reveal the result of a template.
fn hide_name(entry: &KeychainEntry, name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(_) if !is_written_location(entry, name) => {
            let reason = format!("credential {} not found", display_location(entry, name));
            unresolved_error(entry.name.as_str(), reason)
        }
        error => error,
    }
}

pub(super) fn text_field<'m>(fields: &'m Map<String, Value>, keys: &[&str]) -> Option<&'m str> {
    let mut values = keys.iter().filter_map(|key| fields.get(*key));
    values.find_map(Value::as_str)
}
