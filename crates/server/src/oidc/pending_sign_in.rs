//! A sign-in that was started: what must be the same when the browser returns from the provider.
//!
//! It is in an encrypted cookie of the browser, so that any server on the store can complete the sign-in.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::time::Time;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How long a person has to sign in at the provider.
pub(crate) const SIGN_IN_DURATION: Duration = Duration::from_secs(10 * 60);
/// Maximum length of a return path in bytes; longer ones lead to the home page.
const RETURN_BYTES_MAX: usize = 1_024;
/// Distinguishes the key from others that derive from the same key.
const PURPOSE: &[u8] = b"oidc sign-in";

/// Where the browser goes after the sign-in: a page of the client, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReturnPath(String);

impl ReturnPath {
    /// Takes a path that begins with a slash and cannot leave the client; otherwise the home page.
    pub(crate) fn new(text: &str) -> Self {
        let is_page = is_page_path(text);
        Self(if is_page { text.to_owned() } else { "/".to_owned() })
    }

    /// The path with its first slash.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_page_path(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\\\"<>#".contains(c);
    if text.len() > RETURN_BYTES_MAX || !text.chars().all(is_plain) {
        return false;
    }
    let path = text.split('?').next().unwrap_or_default().to_ascii_lowercase();
    let Some(path) = path.strip_prefix('/') else {
        return false;
    };
    let decoded = path.replace("%2e", ".").replace("%2f", "/").replace("%5c", "\\");
    let is_page = |first: &str| !["", "api", "sign-in"].contains(&first);
    let climbs = decoded.split(['/', '\\']).any(|segment| matches!(segment, "." | ".."));
    path.is_empty() || (!climbs && is_page(path.split('/').next().unwrap_or_default()))
}

/// A started sign-in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingSignIn {
    /// Random text that the provider returns with the code.
    pub(crate) state: String,
    /// Random text that the provider puts into the ID token.
    pub(crate) nonce: String,
    /// Random text whose hash the provider gets first, and the text itself with the code (PKCE).
    pub(crate) verifier: String,
    /// Where the browser goes afterwards.
    pub(crate) return_path: ReturnPath,
    /// When it started, in microseconds.
    started_at_us: i64,
}

impl PendingSignIn {
    /// Starts a sign-in.
    pub(crate) fn start(return_path: ReturnPath, now: Time) -> Self {
        Self {
            state: random_text(),
            nonce: random_text(),
            verifier: random_text(),
            return_path,
            started_at_us: now.0,
        }
    }

    /// When it started.
    pub(crate) fn started_at(&self) -> Time {
        Time(self.started_at_us)
    }

    /// Hash of the verifier, for the first request.
    pub(crate) fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier.as_bytes()))
    }

    /// Encrypts it for the cookie.
    pub(crate) fn seal(&self, key: &str) -> String {
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce);
        let mut bytes = serde_json::to_vec(self).expect("a sign-in serializes to JSON");
        encryption_key(key)
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::from(PURPOSE), &mut bytes)
            .expect("a short text can be encrypted");
        URL_SAFE_NO_PAD.encode([&nonce[..], &bytes].concat())
    }

    /// Decrypts a cookie; `None` if it was not encrypted with this key, or started too long ago.
    pub(crate) fn open(text: &str, key: &str, now: Time) -> Option<Self> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = encryption_key(key)
            .open_in_place(nonce, Aad::from(PURPOSE), sealed)
            .ok()?;
        let sign_in: Self = serde_json::from_slice(opened).ok()?;
        (now < sign_in.started_at().after(SIGN_IN_DURATION)).then_some(sign_in)
    }
}

fn encryption_key(key: &str) -> LessSafeKey {
    let key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), PURPOSE);
    let key = UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("the hash has the length of the key");
    LessSafeKey::new(key)
}

/// 256 random bits as text.
fn random_text() -> String {
    let mut bytes = [0_u8; 32];
    rand::fill(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_opens_with_its_key_unchanged_and_in_time() {
        let sign_in = PendingSignIn::start(ReturnPath::new("/runs/7"), Time(5));
        let text = sign_in.seal("key");
        assert_eq!(PendingSignIn::open(&text, "key", Time(6)), Some(sign_in.clone()));
        assert_eq!(PendingSignIn::open(&text, "other", Time(6)), None);
        assert_eq!(PendingSignIn::open(&text, "key", Time(5).after(SIGN_IN_DURATION)), None);
        for position in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[position] = if changed[position] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(PendingSignIn::open(&changed, "key", Time(6)), None, "{position}");
        }
        assert_eq!(PendingSignIn::open("", "key", Time(6)), None);
        assert!(!text.contains(&sign_in.verifier));
    }

    #[test]
    fn each_sign_in_has_its_own_random_texts() {
        let sign_ins = [(); 2].map(|()| PendingSignIn::start(ReturnPath::new("/"), Time(0)));
        let mut texts = Vec::new();
        for sign_in in &sign_ins {
            texts.extend([&sign_in.state, &sign_in.nonce, &sign_in.verifier]);
        }
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), 6);
        assert!(texts.iter().all(|text| text.len() == 43));
    }

    #[test]
    fn the_challenge_is_the_hash_of_the_verifier() {
        let mut sign_in = PendingSignIn::start(ReturnPath::new("/"), Time(0));
        sign_in.verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        assert_eq!(sign_in.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn a_return_path_is_a_page_of_the_client() {
        for path in [
            "/",
            "/runs",
            "/runs/7?tab=logs&q=a%20b",
            "/playbooks/demo%2Fa",
            "/?q=//x",
        ] {
            assert_eq!(ReturnPath::new(path).as_str(), path);
        }
        for path in [
            "",
            "runs",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/../other",
            "/runs/%2e%2E/%2e./x",
            "/a%2f..%2f..%2fb",
            "/api/session",
            "/API/session",
            "/sign-in?failure=X",
            "/runs\r\nSet-Cookie: a",
            "/runs#x",
            "/rüns",
            "/ runs",
        ] {
            assert_eq!(ReturnPath::new(path).as_str(), "/", "{path}");
        }
        assert_eq!(
            ReturnPath::new(&format!("/{}", "a".repeat(RETURN_BYTES_MAX))).as_str(),
            "/"
        );
    }
}
