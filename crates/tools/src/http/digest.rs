//! Digest authentication with MD5 or SHA-256.

use std::fmt;

use md5::Md5;
use model::outcome::TaskError;
use reqwest::header::HeaderValue;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::auth::{auth_text, require_auth_text};
use crate::http::auth::secret_header_value;

/// User name and password.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestLogin {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Parsed `WWW-Authenticate` challenge.
#[derive(Debug, Default, PartialEq, Eq)]
struct DigestChallenge {
    realm: String,
    nonce: String,
    opaque: Option<String>,
    algorithm: Option<String>,
    qop: Option<String>,
}

/// Request data that the digest covers.
pub(crate) struct DigestInput<'a> {
    pub(crate) method: &'a str,
    /// Path and query.
    pub(crate) uri: &'a str,
    /// Client nonce, unique for each response.
    pub(crate) cnonce: &'a str,
}

impl DigestLogin {
    /// Reads the login from the fields of a credential.
    pub(crate) fn from_auth(auth: &Map<String, Value>) -> Result<Self, TaskError> {
        Ok(Self {
            user: require_auth_text(auth, &["username", "user", "login"])?,
            password: auth_text(auth, &["password", "secret"]).unwrap_or_default(),
        })
    }

    /// Returns the header that responds to a challenge, or `None` if the scheme or algorithm is not supported.
    pub(crate) fn response_header(
        &self,
        challenge: &str,
        input: &DigestInput<'_>,
    ) -> Result<Option<HeaderValue>, TaskError> {
        let Some(challenge) = DigestChallenge::parse(challenge) else {
            return Ok(None);
        };
        let algorithm = challenge.algorithm.as_deref().unwrap_or("MD5");
        let is_session = algorithm.to_ascii_lowercase().ends_with("-sess");
        let hash: fn(&str) -> String = match algorithm.to_ascii_uppercase().as_str() {
            "MD5" | "MD5-SESS" => |text| hex::encode(Md5::digest(text)),
            "SHA-256" | "SHA-256-SESS" => |text| hex::encode(Sha256::digest(text)),
            _ => return Ok(None),
        };
        let (realm, nonce, cnonce) = (&challenge.realm, &challenge.nonce, input.cnonce);
        let mut user_hash = hash(&format!("{}:{realm}:{}", self.user, self.password));
        if is_session {
            user_hash = hash(&format!("{user_hash}:{nonce}:{cnonce}"));
        }
        let request_hash = hash(&format!("{}:{}", input.method, input.uri));
        let has_auth = |qop: &String| qop.split(',').any(|value| value.trim() == "auth");
        let quality = match &challenge.qop {
            None => None,
            Some(qop) if has_auth(qop) => Some("auth"),
            Some(_) => return Ok(None),
        };
        let response = match quality {
            Some(qop) => hash(&format!("{user_hash}:{nonce}:00000001:{cnonce}:{qop}:{request_hash}")),
            None => hash(&format!("{user_hash}:{nonce}:{request_hash}")),
        };
        let user = self.user.replace('\\', "\\\\").replace('"', "\\\"");
        let mut header = format!(
            "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{}\", response=\"{response}\", algorithm={algorithm}",
            input.uri
        );
        if let Some(opaque) = &challenge.opaque {
            header.push_str(&format!(", opaque=\"{opaque}\""));
        }
        if let Some(qop) = quality {
            header.push_str(&format!(", qop={qop}, nc=00000001, cnonce=\"{cnonce}\""));
        }
        secret_header_value(&header).map(Some)
    }
}

impl DigestChallenge {
    fn parse(header: &str) -> Option<Self> {
        let (scheme, mut remaining) = header.trim().split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("digest") {
            return None;
        }
        let mut challenge = Self::default();
        while let Some((name, after)) = remaining.split_once('=') {
            let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
            let (value, next) = match after.trim_start().strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').unwrap_or((after, "")),
            };
            let value = value.trim().to_owned();
            match name.as_str() {
                "realm" => challenge.realm = value,
                "nonce" => challenge.nonce = value,
                "opaque" => challenge.opaque = Some(value),
                "algorithm" => challenge.algorithm = Some(value),
                "qop" => challenge.qop = Some(value),
                _ => {}
            }
            remaining = next;
        }
        (!challenge.nonce.is_empty()).then_some(challenge)
    }
}

impl fmt::Debug for DigestLogin {
    /// Hides the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestLogin")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str) -> DigestLogin {
        DigestLogin {
            user: user.to_owned(),
            password: password.to_owned(),
        }
    }

    fn response(challenge: &str, user: &str, password: &str, cnonce: &str) -> String {
        let login = login(user, password);
        let input = DigestInput {
            method: "GET",
            uri: "/dir/index.html",
            cnonce,
        };
        let header = login.response_header(challenge, &input).unwrap().unwrap();
        let header = header.to_str().unwrap();
        let (_, remaining) = header.split_once("response=\"").unwrap();
        remaining.split('"').next().unwrap().to_owned()
    }

    #[test]
    fn the_examples_of_the_standard_are_reproduced() {
        let old = "Digest realm=\"testrealm@host.com\", qop=\"auth,auth-int\", \
                   nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\", opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
        assert_eq!(
            response(old, "Mufasa", "Circle Of Life", "0a4f113b"),
            "6629fae49393a05397450978507c4ef1"
        );
        let new = "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, \
                   nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
        let header = login("Mufasa", "Circle of Life");
        let input = DigestInput {
            method: "GET",
            uri: "/dir/index.html",
            cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
        };
        let header = header.response_header(new, &input).unwrap().unwrap();
        assert!(
            header
                .to_str()
                .unwrap()
                .contains("753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1")
        );
    }

    #[test]
    fn unsupported_challenges_get_no_response() {
        let login = login("u", "p");
        let input = DigestInput {
            method: "GET",
            uri: "/",
            cnonce: "c",
        };
        for challenge in [
            "Basic realm=\"x\"",
            "Digest",
            "Digest realm=\"x\"",
            "Digest nonce=\"x\", algorithm=SHA-512-256",
            "Digest nonce=\"x\", qop=\"auth-int\"",
        ] {
            let header = login.response_header(challenge, &input).unwrap();
            assert!(header.is_none(), "{challenge}");
        }
    }
}
