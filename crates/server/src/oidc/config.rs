//! Configuration of single sign-on, checked when the server starts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use wire::api::Role;
use zeroize::Zeroizing;

use crate::keychain::SecretFetcher;
use crate::oidc::provider::Provider;
use crate::oidc::url::HttpUrl;

/// Longest duration of a session.
pub const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Maximum number of values that map to a role.
const ROLES_MAX: usize = 1_000;
/// Maximum length of the name of the provider in characters.
const NAME_CHARS_MAX: usize = 60;

/// Password of this client at the provider.
#[derive(Clone)]
pub struct ClientSecret(Zeroizing<String>);

impl ClientSecret {
    /// Takes the text without the white space around it.
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.trim().to_owned()))
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// How the client proves its identity to the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// `client_secret_basic`: the secret is in a header.
    Basic,
    /// `client_secret_post`: the secret is in the form.
    Post,
}

/// Configuration of single sign-on.
#[derive(Clone)]
pub struct OidcConfig {
    /// URL of the provider, exactly as it is in its ID tokens.
    pub issuer: String,
    /// ID of this client at the provider.
    pub client_id: String,
    /// Its secret; `None` for a public client.
    pub client_secret: Option<ClientSecret>,
    /// How the secret is sent; `None` selects what the provider supports.
    pub client_auth: Option<ClientAuth>,
    /// URL at which browsers reach this server.
    pub public_url: String,
    /// Name of the provider on the sign-in page.
    pub name: String,
    /// Scopes to request besides `openid`.
    pub scopes: Vec<String>,
    /// Name or path of the claim that gives the role.
    pub role_claim: String,
    /// Roles by the values of the claim.
    pub roles: BTreeMap<String, Role>,
    /// How long a session lasts.
    pub session: Duration,
    /// Sends requests to the provider.
    pub fetcher: Arc<dyn SecretFetcher>,
}

/// A setting has an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid `{setting}`: {problem}")]
pub struct OidcConfigError {
    /// The setting.
    pub setting: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// Single sign-on of a server. Cheap to clone.
#[derive(Clone)]
pub struct SingleSignOn {
    pub(super) config: Arc<OidcConfig>,
    pub(super) provider: Arc<Provider>,
    fingerprint: Arc<str>,
}

impl SingleSignOn {
    /// Checks the configuration. The provider is contacted at the first sign-in, so it may start later.
    pub fn new(mut config: OidcConfig) -> Result<Self, OidcConfigError> {
        config.check()?;
        config
            .public_url
            .truncate(config.public_url.trim_end_matches('/').len());
        let fingerprint = config.fingerprint();
        let config = Arc::new(config);
        Ok(Self {
            provider: Arc::new(Provider::new(Arc::clone(&config))),
            config,
            fingerprint: fingerprint.into(),
        })
    }

    /// Name of the provider.
    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// The provider, as its ID tokens name it.
    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer
    }

    /// How long a session lasts.
    pub(crate) fn session_duration(&self) -> Duration {
        self.config.session
    }

    /// Identifies the provider and the rules for roles. Sessions that began with other ones have ended.
    pub(crate) fn fingerprint(&self) -> &Arc<str> {
        &self.fingerprint
    }

    /// The URL of a page for browsers; `path` has its first slash.
    pub(crate) fn page_url(&self, path: &str) -> String {
        format!("{}{path}", self.config.public_url)
    }

    /// Whether browsers use TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.config.public_url.starts_with("https://")
    }

    /// Path of this server in the browser, without a slash at the end.
    pub(crate) fn public_path(&self) -> &str {
        HttpUrl::parse(&self.config.public_url).map_or("", |url| url.path)
    }

    /// Host name of this server in the browser.
    pub fn public_host(&self) -> &str {
        HttpUrl::parse(&self.config.public_url).map_or("", |url| url.host())
    }
}

impl OidcConfig {
    /// Where the provider sends the browser back to.
    pub(super) fn redirect_url(&self) -> String {
        format!("{}/api/session/oidc/callback", self.public_url)
    }

    fn check(&self) -> Result<(), OidcConfigError> {
        let error = |setting, problem: &str| {
            Err(OidcConfigError {
                setting,
                problem: problem.to_owned(),
            })
        };
        if !is_base_url(&self.issuer) {
            return error("oidc_issuer", BASE_URL_EXPECTED);
        }
        if !is_base_url(&self.public_url) {
            return error("public_url", BASE_URL_EXPECTED);
        }
        if self.client_id.is_empty() || !self.client_id.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            return error(
                "oidc_client_id",
                "expected the ID of the client at the provider, in ASCII",
            );
        }
        if self.client_secret.as_ref().is_some_and(|secret| secret.0.is_empty()) {
            return error("oidc_client_secret_file", "the client secret is empty");
        }
        if self.client_auth.is_some() && self.client_secret.is_none() {
            return error(
                "oidc_client_auth",
                "it needs a client secret: set `oidc_client_secret_file`",
            );
        }
        if !(1..=NAME_CHARS_MAX).contains(&self.name.trim().chars().count()) {
            return error("oidc_name", &format!("expected 1 to {NAME_CHARS_MAX} characters"));
        }
        let is_scope = |scope: &String| !scope.is_empty() && scope.chars().all(|c| c.is_ascii_graphic());
        if !self.scopes.iter().all(is_scope) {
            return error("oidc_scopes", "expected names of scopes, without spaces in a name");
        }
        if self.role_claim.is_empty() {
            return error("oidc_role_claim", "expected the name or the path of a claim");
        }
        if self.roles.is_empty() || self.roles.len() > ROLES_MAX {
            let problem = "expected 1 to 1000 values of the role claim, each with its role, for example \
                           `{ admins = \"admin\" }`";
            return error("oidc_roles", problem);
        }
        if self.roles.values().any(|role| *role == Role::Worker) {
            let problem = "`worker` is a role of programs; expected viewer, operator, author or admin";
            return error("oidc_roles", problem);
        }
        if self.session < Duration::from_secs(1) || self.session > SESSION_MAX {
            return error("oidc_session", "expected a duration from 1s to 12h");
        }
        Ok(())
    }

    fn fingerprint(&self) -> String {
        let roles: Vec<(&String, &Role)> = self.roles.iter().collect();
        let sources = serde_json::json!([self.issuer, self.client_id, self.role_claim, roles]);
        hex::encode(&Sha256::digest(sources.to_string().as_bytes())[..8])
    }
}

const BASE_URL_EXPECTED: &str = "expected an https URL without a query; http is accepted for localhost only";

fn is_base_url(text: &str) -> bool {
    HttpUrl::parse(text).is_some_and(|url| url.is_protected() && !url.has_query)
}

#[cfg(test)]
mod tests;
