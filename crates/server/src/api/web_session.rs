//! Sessions of the web client: a cookie that stands for an access token, for a limited time.
//!
//! The cookie contains the hash of the token, not the token, and a signature with a key that all servers on the store
//! share. A session ends when it expires, when its token is revoked, or when the user signs out.

use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderName};
use model::time::Time;
use ring::hmac;
use store::{ENDED_SESSION_PREFIX, Store};

/// How long a session lasts.
pub(crate) const SESSION_DURATION: Duration = Duration::from_secs(12 * 60 * 60);
/// Setting of the store with the key that all servers share.
pub(crate) const KEY_SETTING: &str = "web-session-key";
/// Header that the client sends with each request that changes something. A page of another site cannot add it without
/// the permission of this server, which is never given.
pub(crate) const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-noetl-client");
/// The first part of every cookie, for a later format.
const FORMAT: &str = "1";
/// Name of the cookie. Browsers accept the first name only over TLS, and only from this host.
const NAMES: [&str; 2] = ["__Host-noetl_session", "noetl_session"];

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebSession {
    /// Hash of its access token.
    pub(crate) token_hash: [u8; 32],
    /// When it ends.
    pub(crate) expires_at: Time,
    /// Its random ID.
    id: [u8; 16],
}

impl WebSession {
    /// Starts a session for a token.
    pub(crate) fn start(token_hash: [u8; 32], now: Time) -> Self {
        let mut id = [0_u8; 16];
        rand::fill(&mut id);
        Self {
            token_hash,
            expires_at: now.after(SESSION_DURATION),
            id,
        }
    }

    /// Its signed text, for the cookie.
    pub(crate) fn seal(&self, key: &str) -> String {
        let text = self.unsigned();
        let signature = hmac::sign(&hmac_key(key), text.as_bytes());
        format!("{text}.{}", hex::encode(signature))
    }

    /// Reads a signed text; `None` if it was not signed with this key.
    pub(crate) fn open(text: &str, key: &str) -> Option<Self> {
        let (unsigned, signature) = text.rsplit_once('.')?;
        let signature = hex::decode(signature).ok()?;
        hmac::verify(&hmac_key(key), unsigned.as_bytes(), &signature).ok()?;
        let mut parts = unsigned.split('.');
        if parts.next() != Some(FORMAT) {
            return None;
        }
        let (token_hash, expires_at, id) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Self {
            token_hash: hex::decode(token_hash).ok()?.try_into().ok()?,
            expires_at: Time(expires_at.parse().ok()?),
            id: hex::decode(id).ok()?.try_into().ok()?,
        })
    }

    fn unsigned(&self) -> String {
        let (token_hash, id) = (hex::encode(self.token_hash), hex::encode(self.id));
        format!("{FORMAT}.{token_hash}.{}.{id}", self.expires_at.0)
    }

    /// Whether the user signed out, or the session has expired.
    pub(crate) async fn has_ended(&self, store: &dyn Store) -> Result<bool, store::Error> {
        Ok(store.now() >= self.expires_at || store.setting(&self.end_key()).await?.is_some())
    }

    /// Ends the session on all servers.
    pub(crate) async fn end(&self, store: &dyn Store) -> Result<(), store::Error> {
        let expires_at = self.expires_at.to_string();
        store.set_setting_once(&self.end_key(), &expires_at).await.map(drop)
    }

    fn end_key(&self) -> String {
        format!("{ENDED_SESSION_PREFIX}{}", hex::encode(self.id))
    }
}

fn hmac_key(key: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())
}

/// The signed text in the cookie of a request.
pub(crate) fn cookie_text(headers: &HeaderMap) -> Option<&str> {
    let lists = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|list| list.to_str().ok());
    let mut cookies = lists
        .flat_map(|list| list.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| NAMES.contains(name)).map(|(_, text)| text)
}

/// The `Set-Cookie` header that stores a text, or that removes the cookie if the text is empty.
pub(crate) fn set_cookie(text: &str, is_encrypted: bool) -> String {
    let max_age = if text.is_empty() { 0 } else { SESSION_DURATION.as_secs() };
    let [secure_name, plain_name] = NAMES;
    let (name, secure) = if is_encrypted {
        (secure_name, "; Secure")
    } else {
        (plain_name, "")
    };
    format!("{name}={text}; Path=/; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_opens_only_with_its_key_and_unchanged() {
        let session = WebSession::start([7; 32], Time(5));
        let text = session.seal("key");
        assert_eq!(WebSession::open(&text, "key"), Some(session));
        assert_eq!(WebSession::open(&text, "other"), None);
        for position in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[position] = if changed[position] == b'0' { b'1' } else { b'0' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(WebSession::open(&changed, "key"), None, "{changed}");
        }
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, "theme=dark; noetl_session=1.a.b; lang=en".parse().unwrap());
        assert_eq!(cookie_text(&headers), Some("1.a.b"));
        headers.insert(COOKIE, "theme=dark".parse().unwrap());
        assert_eq!(cookie_text(&headers), None);
    }

    #[test]
    fn a_cookie_is_hidden_from_scripts_and_other_sites() {
        let plain = set_cookie("text", false);
        assert!(
            plain.contains("HttpOnly; SameSite=Strict") && !plain.contains("Secure"),
            "{plain}"
        );
        let encrypted = set_cookie("text", true);
        assert!(
            encrypted.starts_with("__Host-") && encrypted.ends_with("; Secure"),
            "{encrypted}"
        );
        assert!(set_cookie("", false).contains("Max-Age=0"));
    }
}
