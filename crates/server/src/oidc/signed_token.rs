//! The compact form of a signed token: header, claims and signature. Parsing does not mean that it is valid.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::oidc::error::SignInError;
use crate::oidc::key_set::SignatureAlgorithm;

/// Maximum length of a token in bytes.
const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// A parsed token whose signature was not checked.
#[derive(Debug)]
pub(crate) struct SignedToken<'t> {
    /// Algorithm of the signature.
    pub(crate) algorithm: SignatureAlgorithm,
    /// ID of the key.
    pub(crate) key_id: Option<String>,
    /// The bytes that are signed.
    pub(crate) message: &'t [u8],
    /// The signature.
    pub(crate) signature: Vec<u8>,
    claims: Map<String, Value>,
}

impl<'t> SignedToken<'t> {
    /// Parses a token.
    pub(crate) fn parse(text: &'t str) -> Result<Self, SignInError> {
        let malformed = || SignInError::invalid_token("the ID token is not a signed token in compact form");
        if text.len() > TOKEN_BYTES_MAX {
            return Err(SignInError::invalid_token(format!(
                "the ID token has more than {TOKEN_BYTES_MAX} bytes"
            )));
        }
        let (message, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
        let header = decode_object(header).ok_or_else(malformed)?;
        let claims = decode_object(claims).ok_or_else(malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
        if header.contains_key("crit") {
            let reason = "the header of the ID token demands an extension (`crit`)";
            return Err(SignInError::invalid_token(reason));
        }
        let algorithm = header
            .get("alg")
            .and_then(Value::as_str)
            .and_then(SignatureAlgorithm::parse);
        let algorithm = algorithm.ok_or_else(|| {
            let reason = "the ID token is not signed with RS256, PS256, ES256, ES384 or EdDSA";
            SignInError::invalid_token(reason)
        })?;
        Ok(Self {
            algorithm,
            key_id: header.get("kid").and_then(Value::as_str).map(str::to_owned),
            message: message.as_bytes(),
            signature,
            claims,
        })
    }

    /// The claims of the token, whose signature the caller has checked.
    pub(crate) fn into_claims(self) -> Map<String, Value> {
        self.claims
    }
}

fn decode_object(text: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(header: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.{}", part(header), part("{\"sub\":\"ada\"}"), part("signature"))
    }

    #[test]
    fn a_token_is_split_into_its_parts() {
        let text = encode("{\"alg\":\"ES256\",\"kid\":\"k\"}");
        let token = SignedToken::parse(&text).unwrap();
        assert_eq!(
            (token.algorithm, token.key_id.as_deref()),
            (SignatureAlgorithm::Es256, Some("k"))
        );
        assert_eq!(token.signature, b"signature");
        assert_eq!(token.into_claims()["sub"], "ada");
    }

    #[test]
    fn unsigned_and_symmetric_tokens_are_refused() {
        for header in [
            "{\"alg\":\"none\"}",
            "{\"alg\":\"HS256\"}",
            "{}",
            "{\"alg\":\"RS256\",\"crit\":[\"b64\"]}",
            "[]",
        ] {
            assert!(SignedToken::parse(&encode(header)).is_err(), "{header}");
        }
        for text in ["", "a.b", "a.b.c", "..", &"a".repeat(TOKEN_BYTES_MAX + 1)] {
            assert!(SignedToken::parse(text).is_err());
        }
    }
}
