//! Sessions of the web client: a cookie that stands for an access token, or for a person whom the identity provider
//! signed in, for a limited time.
//!
//! The cookie contains the hash of the token, not the token, or the person with the role; and a signature with a key
//! that all servers on the store share. A session ends when it expires, when its token is revoked, when single sign-on
//! is configured differently, or when the user signs out.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::COOKIE;
use axum::http::{HeaderMap, HeaderName};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::time::Time;
use ring::hmac;
use serde::{Deserialize, Serialize};
use store::{ENDED_SESSION_PREFIX, Store};
use wire::api::Role;

/// How long the session of an access token lasts.
pub(crate) const SESSION_DURATION: Duration = Duration::from_secs(12 * 60 * 60);
/// Setting of the store with the key that all servers share.
pub(crate) const KEY_SETTING: &str = "web-session-key";
/// Header that the client sends with each request that changes something. A page of another site cannot add it without
/// the permission of this server, which is never given.
pub(crate) const CLIENT_HEADER: HeaderName = HeaderName::from_static("x-noetl-client");
/// The first part of a cookie that stands for an access token.
const TOKEN_FORMAT: &str = "1";
/// The first part of a cookie that stands for a person.
const USER_FORMAT: &str = "2";
/// Name of the cookie. Browsers accept the first name only over TLS, and only from this host.
const NAMES: [&str; 2] = ["__Host-noetl_session", "noetl_session"];

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebSession {
    /// Whom it stands for.
    pub(crate) holder: WebSessionHolder,
    /// When it ends.
    pub(crate) expires_at: Time,
    /// Its random ID.
    id: [u8; 16],
}

/// Whom a session stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WebSessionHolder {
    /// The holder of the access token with this hash.
    Token([u8; 32]),
    /// A person whom the identity provider signed in.
    User(Arc<SessionUser>),
}

/// A person whom the identity provider signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionUser {
    /// ID of the person at the provider.
    pub(crate) subject: String,
    /// Name to display.
    pub(crate) name: String,
    /// Role.
    pub(crate) role: Role,
    /// Fingerprint of the configuration that gave the role.
    pub(crate) fingerprint: Arc<str>,
}

impl std::fmt::Display for SessionUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (user {})", self.name, self.subject)
    }
}

impl WebSession {
    /// Starts a session.
    pub(crate) fn start(holder: WebSessionHolder, now: Time, duration: Duration) -> Self {
        let mut id = [0_u8; 16];
        rand::fill(&mut id);
        Self {
            holder,
            expires_at: now.after(duration),
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
        let (format, holder) = (parts.next()?, parts.next()?);
        let (expires_at, id) = (parts.next()?, parts.next()?);
        let holder = match format {
            TOKEN_FORMAT => WebSessionHolder::Token(hex::decode(holder).ok()?.try_into().ok()?),
            USER_FORMAT => {
                let user = URL_SAFE_NO_PAD.decode(holder).ok()?;
                WebSessionHolder::User(serde_json::from_slice(&user).ok()?)
            }
            _ => return None,
        };
        Some(Self {
            holder,
            expires_at: Time(expires_at.parse().ok()?),
            id: hex::decode(id).ok()?.try_into().ok()?,
        })
    }

    fn unsigned(&self) -> String {
        let (format, holder) = match &self.holder {
            WebSessionHolder::Token(hash) => (TOKEN_FORMAT, hex::encode(hash)),
            WebSessionHolder::User(user) => {
                let user = serde_json::to_vec(user).expect("a person serializes to JSON");
                (USER_FORMAT, URL_SAFE_NO_PAD.encode(user))
            }
        };
        format!("{format}.{holder}.{}.{}", self.expires_at.0, hex::encode(self.id))
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
    find_cookie(headers, &NAMES)
}

/// The first cookie of a request with one of these names.
pub(crate) fn find_cookie<'h>(headers: &'h HeaderMap, names: &[&str]) -> Option<&'h str> {
    let lists = headers
        .get_all(COOKIE)
        .into_iter()
        .filter_map(|list| list.to_str().ok());
    let mut cookies = lists
        .flat_map(|list| list.split(';'))
        .filter_map(|cookie| cookie.trim().split_once('='));
    cookies.find(|(name, _)| names.contains(name)).map(|(_, text)| text)
}

/// The `Set-Cookie` header that removes the cookie.
pub(crate) fn remove_cookie(is_encrypted: bool) -> String {
    set_cookie("", Duration::ZERO, is_encrypted)
}

/// The `Set-Cookie` header that stores a text.
pub(crate) fn set_cookie(text: &str, duration: Duration, is_encrypted: bool) -> String {
    let max_age = duration.as_secs();
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

    fn holders() -> [WebSessionHolder; 2] {
        let user = SessionUser {
            subject: "7".to_owned(),
            name: "Ada".to_owned(),
            role: Role::Viewer,
            fingerprint: "ab".into(),
        };
        [WebSessionHolder::Token([7; 32]), WebSessionHolder::User(user.into())]
    }

    #[test]
    fn a_session_opens_only_with_its_key_and_unchanged() {
        for holder in holders() {
            let session = WebSession::start(holder, Time(5), SESSION_DURATION);
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
        let plain = set_cookie("text", SESSION_DURATION, false);
        assert!(
            plain.contains("HttpOnly; SameSite=Strict") && !plain.contains("Secure"),
            "{plain}"
        );
        let encrypted = set_cookie("text", SESSION_DURATION, true);
        assert!(
            encrypted.starts_with("__Host-") && encrypted.ends_with("; Secure"),
            "{encrypted}"
        );
        assert!(remove_cookie(false).contains("Max-Age=0"));
    }
}
