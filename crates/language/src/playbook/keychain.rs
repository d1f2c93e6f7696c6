//! The `keychain` section: secrets that must be available before a run starts.

use std::collections::BTreeMap;

use model::id::Name;
use model::source::Span;

use crate::template::Tree;

/// One entry of a playbook's keychain.
#[derive(Debug, Clone)]
pub struct KeychainEntry {
    /// The name in templates and `auth`.
    pub name: Name,
    /// The source of its value.
    pub kind: KeychainKind,
    /// The runs that share its resolved value.
    pub scope: KeychainScope,
    /// Its other keys.
    pub fields: BTreeMap<String, Tree>,
    /// Its position in the playbook.
    pub span: Span,
}

/// The source of an entry's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeychainKind {
    /// A stored credential.
    Credential,
    /// Values in the playbook, which may use earlier entries.
    Static,
    /// Environment variables that the operator allows.
    Env,
    /// Files that the operator allows.
    File,
    /// A token endpoint.
    Token,
    /// A secret manager.
    Vault,
}

/// The runs that share the resolved value of an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeychainScope {
    /// One execution.
    #[default]
    Local,
    /// An execution and its child runs.
    Shared,
    /// Every run of the playbook.
    Global,
}

/// The words of kinds that are not types of credentials.
pub(crate) const KIND_WORDS: &[&str] = &[
    "credential",
    "static",
    "env",
    "file",
    "oauth2",
    "bearer",
    "vault",
    "secret_manager",
];

/// The words of scopes.
pub(crate) const SCOPES: &[(&str, KeychainScope)] = &[
    ("local", KeychainScope::Local),
    ("shared", KeychainScope::Shared),
    ("global", KeychainScope::Global),
];

impl KeychainKind {
    /// Determines the kind from its name and the entry's keys. Any other name is the type of a credential.
    pub(crate) fn parse(text: &str, fields: &BTreeMap<String, Tree>) -> Self {
        let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
        match text {
            "static" | "map" | "inline" => Self::Static,
            "env" => Self::Env,
            "file" => Self::File,
            "vault" | "secret_manager" => Self::Vault,
            _ if has(&["endpoint", "token_url"]) => Self::Token,
            "bearer" | "oauth2" if has(&["token", "value", "data"]) => Self::Static,
            _ => Self::Credential,
        }
    }
}

impl KeychainScope {
    /// Parses a scope; `None` for any other word.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let scope = SCOPES.iter().find(|(name, _)| *name == text);
        scope.map(|(_, scope)| *scope)
    }
}
