//! The `keychain` section: what a run must be able to open before it begins.

use std::collections::BTreeMap;

use crate::id::Name;
use crate::source::Span;
use crate::template::Tree;

/// One entry of a playbook's keychain.
#[derive(Debug, Clone)]
pub struct KeychainEntry {
    /// What templates and `auth` call it.
    pub name: Name,
    /// Where its value comes from.
    pub kind: KeychainKind,
    /// Who shares what it came to.
    pub scope: KeychainScope,
    /// Its other keys.
    pub fields: BTreeMap<String, Tree>,
    /// Where it stands.
    pub span: Span,
}

/// Where the value of an entry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeychainKind {
    /// A credential that an admin has set.
    Credential,
    /// The playbook itself, and entries before it.
    Static,
    /// Variables that the operator gives out.
    Env,
    /// Files that the operator gives out.
    File,
    /// A token endpoint.
    Token,
    /// A secret manager.
    Vault,
}

/// Who shares what an entry came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeychainScope {
    /// One execution.
    #[default]
    Local,
    /// An execution and those it starts.
    Shared,
    /// Every run of the playbook.
    Global,
}

impl KeychainKind {
    /// The kind that a word means, given the entry's keys. What is no word of its own is a credential's type.
    pub(crate) fn of(word: &str, fields: &BTreeMap<String, Tree>) -> Self {
        let has = |names: &[&str]| names.iter().any(|name| fields.contains_key(*name));
        match word {
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
    /// The scope that a word means; none for a word that is something else.
    pub(crate) fn of(word: &str) -> Option<Self> {
        match word {
            "local" => Some(Self::Local),
            "shared" => Some(Self::Shared),
            "global" => Some(Self::Global),
            _ => None,
        }
    }
}
