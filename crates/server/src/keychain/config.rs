//! How the keychain is set up: its master key, and what playbooks may reach through it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::keychain::keys::MasterKeys;

/// How the keychain is set up. Without a master key nothing is sealed or opened.
#[derive(Clone, Default)]
pub struct KeychainConfig {
    /// What seals.
    pub keys: MasterKeys,
    /// What entries of kind `env` may read.
    pub env: BTreeMap<String, String>,
    /// Where entries of kind `file` may read.
    pub files: Option<PathBuf>,
    /// Where entries of kind `vault` are found.
    pub vault: Option<VaultConfig>,
    /// Makes requests to token endpoints and secret managers; none where this process makes none.
    pub fetch: Option<Arc<dyn Fetch>>,
}

/// A secret manager with the API of a key-value store, version 2.
#[derive(Clone)]
pub struct VaultConfig {
    /// Its URL.
    pub address: String,
    /// Who asks.
    pub token: String,
}

/// A request for a secret.
pub struct FetchRequest {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// Headers.
    pub headers: Map<String, Value>,
    /// The body as a form.
    pub form: Option<Value>,
    /// The body as JSON.
    pub json: Option<Value>,
    /// Whether the operator named the URL, which may then be in a private network.
    pub is_operators: bool,
}

/// What came of it.
pub struct Fetched {
    /// The status.
    pub status: u16,
    /// The body; null where it is no JSON.
    pub body: Value,
}

/// Why there is no answer, without any value of the request.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{why}")]
pub struct FetchError {
    /// Why.
    pub why: String,
    /// Whether the same request may succeed later.
    pub is_passing: bool,
}

/// Makes a request under the rules of the http tool. The server cannot make one itself: authors choose the address.
#[async_trait]
pub trait Fetch: Send + Sync {
    /// The answer, or why there is none.
    async fn fetch(&self, request: FetchRequest) -> Result<Fetched, FetchError>;
}
