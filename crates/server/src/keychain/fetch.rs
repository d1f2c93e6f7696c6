//! Entries fetched over the network, from token endpoints and secret managers, and cached until they expire.

use std::collections::BTreeMap;
use std::time::Duration;

use language::playbook::{KeychainEntry, KeychainKind};
use serde_json::{Map, Value, json};
use sha2::Digest as _;

use crate::keychain::cache::CachedValue;
use crate::keychain::config::{FetchRequest, FetchResponse};
use crate::keychain::entries::{EntryResolver, display_location, text_field, unresolved_error};
use crate::keychain::error::Error;
use crate::keychain::shared::FetchKey;

/// Cache time of a value without an expiry.
const CACHE_DEFAULT: Duration = Duration::from_secs(300);
/// A token is renewed this long before it expires, or after 90 % of its lifetime if that is earlier.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);
/// Maximum cache time.
const CACHE_MAX: Duration = Duration::from_secs(24 * 3_600);

impl EntryResolver<'_> {
    /// Returns the cached value, or fetches it.
    pub(super) async fn fetch_entry(
        &self,
        entry: &KeychainEntry,
        fields: &Map<String, Value>,
        shared: Option<CachedValue>,
    ) -> Result<CachedValue, Error> {
        let name = entry.name.as_str();
        let fetch_key = FetchKey {
            scope: self.keychain.find_scope_key(&self.owner, entry.scope).await?,
            name: name.to_owned(),
            request_digest: self.request_digest(entry, fields),
        };
        let fits = |cached_value: &CachedValue| cached_value.request_digest.as_ref() == Some(&fetch_key.request_digest);
        if let Some(cached_value) = shared.filter(fits) {
            return Ok(cached_value);
        }
        let cached = self.keychain.cached_value(&fetch_key.scope, name).await?;
        if let Some(cached_value) = cached.filter(fits) {
            return Ok(cached_value);
        }
        let lock = self.keychain.fetch_lock(&fetch_key);
        let _lock = lock.lock().await;
        let cached = self.keychain.cached_value(&fetch_key.scope, name).await?;
        if let Some(cached_value) = cached.filter(fits) {
            return Ok(cached_value);
        }
        let (value, ttl) = match entry.kind {
            KeychainKind::Vault => (self.fetch_from_vault(entry, fields).await?, CACHE_DEFAULT),
            _ => self.fetch_token(name, fields).await?,
        };
        let cached_value = CachedValue {
            value,
            expires_at: Some(self.keychain.store.now().after(ttl)),
            request_digest: Some(fetch_key.request_digest),
        };
        self.keychain.cache_value(&fetch_key.scope, name, &cached_value).await?;
        Ok(cached_value)
    }

    /// Digest of the request. A cached value is only used for the same request.
    fn request_digest(&self, entry: &KeychainEntry, fields: &Map<String, Value>) -> String {
        let vault = self.keychain.config.vault.as_ref();
        let vault = vault.filter(|_| entry.kind == KeychainKind::Vault);
        let request = json!([format!("{:?}", entry.kind), fields, vault.map(|vault| &vault.address)]);
        let text = zeroize::Zeroizing::new(request.to_string());
        hex::encode(sha2::Sha256::digest(text.as_bytes()))
    }

    async fn send_request(&self, name: &str, request: FetchRequest) -> Result<Value, Error> {
        let Some(fetch) = &self.keychain.config.fetcher else {
            return Err(unresolved_error(name, "this process sends no network requests"));
        };
        let response = fetch.fetch(request).await;
        let FetchResponse { status, body } = response.map_err(|error| {
            if error.is_transient {
                unavailable(name, error.reason)
            } else {
                unresolved_error(name, error.reason)
            }
        })?;
        let reason = || format!("the endpoint returned status {status}");
        match status {
            200..300 => Ok(body),
            408 | 429 | 500.. => Err(unavailable(name, reason())),
            _ => Err(unresolved_error(name, reason())),
        }
    }

    /// Requests a token from its endpoint; returns it with its lifetime.
    async fn fetch_token(&self, name: &str, fields: &Map<String, Value>) -> Result<(Value, Duration), Error> {
        let url = text_field(fields, &["endpoint", "token_url"]);
        let url = url.ok_or_else(|| unresolved_error(name, "it has no `endpoint`"))?;
        let mut data = fields.get("data").and_then(Value::as_object).cloned();
        let data_mut = data.get_or_insert_default();
        for key in ["client_id", "client_secret", "audience", "username", "password"] {
            if let Some(value) = fields.get(key) {
                data_mut.entry(key).or_insert_with(|| value.clone());
            }
        }
        if let Some(scope) = text_field(fields, &["scope", "scopes"]) {
            data_mut.entry("scope").or_insert_with(|| scope.into());
        }
        let grant = text_field(fields, &["grant_type"]).unwrap_or("client_credentials");
        data_mut.entry("grant_type").or_insert_with(|| grant.into());
        let headers = fields.get("headers").and_then(Value::as_object).cloned();
        let headers = headers.unwrap_or_default();
        let is_json = fields.get("json") == Some(&Value::Bool(true)) || has_json_content_type(&headers);
        let body = Some(Value::Object(data.unwrap_or_default()));
        let (form, json) = if is_json { (None, body) } else { (body, None) };
        let request = FetchRequest {
            method: text_field(fields, &["method"]).unwrap_or("POST").to_owned(),
            url: url.to_owned(),
            headers,
            form,
            json,
            is_operator_url: false,
        };
        parse_token(name, self.send_request(name, request).await?)
    }

    /// Reads a secret manager: all values of a path, or one field for each key of `map`.
    async fn fetch_from_vault(&self, entry: &KeychainEntry, fields: &Map<String, Value>) -> Result<Value, Error> {
        let name = entry.name.as_str();
        if let Some(provider) = text_field(fields, &["provider"])
            && !matches!(provider, "vault" | "hashicorp")
        {
            let provider = display_location(entry, provider);
            let reason = format!("secret manager {provider} is not supported; use `vault`");
            return Err(unresolved_error(name, reason));
        }
        if let Some(map) = fields.get("map").and_then(Value::as_object) {
            let mut all = Map::new();
            let mut paths = BTreeMap::new();
            for (key, location) in map {
                let location = location.as_str().unwrap_or_default();
                let (path, field) = location.split_once('#').unwrap_or((location, key));
                if !paths.contains_key(path) {
                    paths.insert(path, self.fetch_vault_path(name, fields, path).await?);
                }
                let value = paths[path].get(field).cloned();
                let reason = || {
                    let location = display_location(entry, location);
                    let reason = format!("its `{key}` names a field that does not exist: {location}");
                    unresolved_error(name, reason)
                };
                all.insert(key.clone(), value.ok_or_else(reason)?);
            }
            return Ok(Value::Object(all));
        }
        let path = text_field(fields, &["path", "secret", "key"]).unwrap_or(name);
        Ok(Value::Object(self.fetch_vault_path(name, fields, path).await?))
    }

    async fn fetch_vault_path(
        &self,
        name: &str,
        fields: &Map<String, Value>,
        path: &str,
    ) -> Result<Map<String, Value>, Error> {
        let Some(vault) = &self.keychain.config.vault else {
            let reason = "no secret manager configured: set NOETL_VAULT_ADDR and NOETL_VAULT_TOKEN on the server";
            return Err(unresolved_error(name, reason));
        };
        let mount = text_field(fields, &["mount"]).unwrap_or("secret");
        let is_plain = |text: &str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            !text.is_empty() && text.chars().all(is_word) && !text.contains("..")
        };
        if !is_plain(mount) || !is_plain(path) {
            return Err(unresolved_error(
                name,
                "its `path` or `mount` is not a valid secret path",
            ));
        }
        let path = path.strip_prefix(&format!("{mount}/")).unwrap_or(path);
        let path = path.strip_prefix("data/").unwrap_or(path);
        let request = FetchRequest {
            method: "GET".to_owned(),
            url: format!("{}/v1/{mount}/data/{path}", vault.address.trim_end_matches('/')),
            headers: Map::from_iter([("X-Vault-Token".to_owned(), json!(vault.token))]),
            form: None,
            json: None,
            is_operator_url: true,
        };
        let body = self.send_request(name, request).await?;
        let values = body.pointer("/data/data").and_then(Value::as_object);
        let reason = || unresolved_error(name, "the response of the secret manager has no values");
        values.cloned().ok_or_else(reason)
    }
}

fn unavailable(name: &str, reason: String) -> Error {
    Error::Unavailable {
        name: name.to_owned(),
        reason,
    }
}

fn has_json_content_type(headers: &Map<String, Value>) -> bool {
    headers.iter().any(|(key, value)| {
        let value = value.as_str().unwrap_or_default();
        key.eq_ignore_ascii_case("content-type") && value.contains("json")
    })
}

fn parse_token(name: &str, body: Value) -> Result<(Value, Duration), Error> {
    let no_token = || unresolved_error(name, "the response of the endpoint has no `access_token`");
    let Value::Object(mut response) = body else {
        return Err(no_token());
    };
    let token = text_field(&response, &["access_token", "token", "id_token"]);
    let token = Value::from(token.ok_or_else(no_token)?);
    let expires = response.get("expires_in").and_then(parse_seconds);
    response.insert("access_token".to_owned(), token.clone());
    response.insert("token".to_owned(), token);
    response.insert("type".to_owned(), "bearer".into());
    let seconds = expires.map_or(CACHE_DEFAULT, |seconds| {
        seconds.saturating_sub(RENEWAL_MARGIN.max(seconds / 10))
    });
    Ok((Value::Object(response), seconds.min(CACHE_MAX)))
}

/// Parses a number of seconds, given as a number or as a string.
fn parse_seconds(value: &Value) -> Option<Duration> {
    let seconds = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_fetched_again_before_it_expires() {
        let ttl_of = |expires: Value| {
            let body = json!({"access_token": "canary", "expires_in": expires});
            parse_token("t", body).map(|(_, ttl_of)| ttl_of.as_secs()).unwrap()
        };
        assert_eq!(ttl_of(json!(3_600)), 3_240);
        assert_eq!(ttl_of(json!("100")), 70);
        assert_eq!(ttl_of(json!(10)), 0);
        assert_eq!(ttl_of(Value::Null), CACHE_DEFAULT.as_secs());
        let (value, _) = parse_token("t", json!({"token": "canary"})).unwrap();
        assert_eq!(value["access_token"], "canary");
        let refused = parse_token("t", json!({"error": "canary"})).unwrap_err();
        assert!(!refused.to_string().contains("canary"));
    }
}
