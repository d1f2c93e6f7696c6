//! The keys of the provider, and the check of a signature with one of them.
//!
//! Only algorithms with a public key are accepted, so that a token cannot be signed with a value that an attacker knows.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::Value;

/// Maximum number of keys of a provider; further keys are ignored.
const KEYS_MAX: usize = 64;

/// Algorithm of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureAlgorithm {
    Rs256,
    Ps256,
    Es256,
    Es384,
    EdDsa,
}

impl SignatureAlgorithm {
    /// The algorithm with this name in a header or a key.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "PS256" => Some(Self::Ps256),
            "ES256" => Some(Self::Es256),
            "ES384" => Some(Self::Es384),
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }

    /// Type and curve of its keys.
    fn key_type(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Rs256 | Self::Ps256 => ("RSA", None),
            Self::Es256 => ("EC", Some("P-256")),
            Self::Es384 => ("EC", Some("P-384")),
            Self::EdDsa => ("OKP", Some("Ed25519")),
        }
    }
}

/// A key as JWKS lists it.
#[derive(Debug, Clone, Deserialize)]
struct PublicKey {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default, rename = "use")]
    usage: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
}

/// The keys of a provider.
#[derive(Debug, Clone, Default)]
pub(crate) struct KeySet(Vec<PublicKey>);

/// What a key set says about a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignatureVerdict {
    Valid,
    Invalid,
    /// No key has this ID and fits the algorithm.
    UnknownKey,
}

impl KeySet {
    /// Reads a key set. Keys of unknown kinds are ignored, because providers add new ones.
    pub(crate) fn parse(document: &Value) -> Option<Self> {
        let keys = document.get("keys")?.as_array()?;
        let keys = keys.iter().take(KEYS_MAX);
        Some(Self(keys.filter_map(|key| PublicKey::deserialize(key).ok()).collect()))
    }

    /// Checks a signature with the key of this ID. Without an ID, exactly one key must fit the algorithm.
    pub(crate) fn check_signature(
        &self,
        algorithm: SignatureAlgorithm,
        key_id: Option<&str>,
        message: &[u8],
        signature: &[u8],
    ) -> SignatureVerdict {
        let mut fitting = self.0.iter().filter(|key| {
            let is_named = key_id.is_none() || key.kid.as_deref() == key_id;
            is_named && key.fits(algorithm)
        });
        let (Some(key), None) = (fitting.next(), fitting.next()) else {
            return SignatureVerdict::UnknownKey;
        };
        match key.verify(algorithm, message, signature) {
            Some(()) => SignatureVerdict::Valid,
            None => SignatureVerdict::Invalid,
        }
    }
}

impl PublicKey {
    fn fits(&self, algorithm: SignatureAlgorithm) -> bool {
        let (kind, curve) = algorithm.key_type();
        let is_for_signatures = self.usage.as_deref().is_none_or(|usage| usage == "sig");
        let declared = self.alg.as_deref().map(SignatureAlgorithm::parse);
        let may_use = declared.is_none_or(|declared| declared == Some(algorithm));
        self.kty == kind && (curve.is_none() || self.crv.as_deref() == curve) && is_for_signatures && may_use
    }

    fn verify(&self, algorithm: SignatureAlgorithm, message: &[u8], signature: &[u8]) -> Option<()> {
        match algorithm {
            SignatureAlgorithm::Rs256 => self.verify_rsa(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            SignatureAlgorithm::Ps256 => self.verify_rsa(&RSA_PSS_2048_8192_SHA256, message, signature),
            SignatureAlgorithm::Es256 => verify_point(&ECDSA_P256_SHA256_FIXED, &self.point(32)?, message, signature),
            SignatureAlgorithm::Es384 => verify_point(&ECDSA_P384_SHA384_FIXED, &self.point(48)?, message, signature),
            SignatureAlgorithm::EdDsa => verify_point(&ED25519, &decode(self.x.as_deref()?)?, message, signature),
        }
    }

    fn verify_rsa(&self, parameters: &'static RsaParameters, message: &[u8], signature: &[u8]) -> Option<()> {
        let key = RsaPublicKeyComponents {
            n: decode(self.n.as_deref()?)?,
            e: decode(self.e.as_deref()?)?,
        };
        key.verify(parameters, message, signature).ok()
    }

    /// The uncompressed point of an elliptic curve whose coordinates have this many bytes.
    fn point(&self, coordinate_bytes: usize) -> Option<Vec<u8>> {
        let (x, y) = (decode(self.x.as_deref()?)?, decode(self.y.as_deref()?)?);
        let is_complete = x.len() == coordinate_bytes && y.len() == coordinate_bytes;
        is_complete.then(|| [&[4_u8][..], &x, &y].concat())
    }
}

fn verify_point(
    algorithm: &'static dyn VerificationAlgorithm,
    point: &[u8],
    message: &[u8],
    signature: &[u8],
) -> Option<()> {
    UnparsedPublicKey::new(algorithm, point).verify(message, signature).ok()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

#[cfg(test)]
mod tests;
