//! Configuration of the keychain: its master key, and the sources that playbooks may use.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::keychain::keys::MasterKeys;

/// Configuration of the keychain. Without a master key, nothing can be encrypted or decrypted.
#[derive(Clone, Default)]
pub struct KeychainConfig {
    /// Master keys.
    pub keys: MasterKeys,
    /// Variables that entries of kind `env` may read.
    pub env: BTreeMap<String, String>,
    /// Directory that entries of kind `file` may read.
    pub secrets_dir: Option<PathBuf>,
    /// Secret manager for entries of kind `vault`.
    pub vault: Option<VaultConfig>,
    /// Sends requests to token endpoints and secret managers; `None` if this process sends none.
    pub fetcher: Option<Arc<dyn SecretFetcher>>,
}

/// A secret manager with the API of the Vault key-value store, version 2.
#[derive(Clone)]
pub struct VaultConfig {
    /// URL of the server.
    pub address: String,
    /// Access token.
    pub token: String,
}

/// A request for a secret, or to the identity provider.
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
    /// Whether the operator configured the URL; it may then be in a private network.
    pub is_operator_url: bool,
}

/// Response to such a request.
pub struct FetchResponse {
    /// HTTP status.
    pub status: u16,
    /// JSON body; null if the body is not JSON.
    pub body: Value,
}

/// Why there is no response; contains no value of the request.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct FetchError {
    /// Cause.
    pub reason: String,
    /// Whether the error is transient.
    pub is_transient: bool,
}

/// Sends requests under the rules of the http tool. The server must not send them itself, because playbook authors
/// choose the address.
#[async_trait]
pub trait SecretFetcher: Send + Sync {
    /// Sends a request and returns the response.
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError>;
}
