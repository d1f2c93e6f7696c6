//! An identity provider inside the test process. It signs ID tokens with any claims and any key, also wrongly.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Map, Value, json};
use server::{FetchError, FetchRequest, FetchResponse, OidcConfig, SecretFetcher, SingleSignOn};
use sha2::{Digest as _, Sha256};
use wire::api::Role;

pub(crate) const ISSUER: &str = "https://login.example/realms/main";

/// A key of the provider with its ID.
struct SigningKey {
    id: String,
    pair: EcdsaKeyPair,
}

impl SigningKey {
    fn generate(id: &str) -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key can be generated");
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).expect("the key is valid");
        Self {
            id: id.to_owned(),
            pair,
        }
    }

    fn public(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|half| URL_SAFE_NO_PAD.encode(half));
        json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": self.id, "x": x, "y": y})
    }
}

/// What the provider does at the next sign-in.
struct ProviderState {
    key: SigningKey,
    /// Another key under the same ID, which the provider does not publish.
    forged_key: Option<SigningKey>,
    /// Header of the ID token instead of the usual one.
    header: Option<Value>,
    claims: Map<String, Value>,
    challenge: String,
    is_down: bool,
    token_error: Option<&'static str>,
    requests: Vec<String>,
}

/// An identity provider.
#[derive(Clone)]
pub(crate) struct FakeProvider(Arc<Mutex<ProviderState>>);

impl FakeProvider {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(ProviderState {
            key: SigningKey::generate("first"),
            forged_key: None,
            header: None,
            claims: Map::new(),
            challenge: String::new(),
            is_down: false,
            token_error: None,
            requests: Vec::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, ProviderState> {
        self.0.lock().expect("no holder of the lock panics")
    }

    /// Settings that use this provider.
    pub(crate) fn config(&self, public_url: &str) -> OidcConfig {
        let roles = [("noetl-admins", Role::Admin), ("staff", Role::Viewer)];
        OidcConfig {
            issuer: ISSUER.to_owned(),
            client_id: "noetl".to_owned(),
            client_secret: None,
            client_auth: None,
            public_url: public_url.to_owned(),
            name: "Example".to_owned(),
            scopes: vec!["profile".to_owned()],
            role_claim: "groups".to_owned(),
            roles: BTreeMap::from(roles.map(|(value, role)| (value.to_owned(), role))),
            session: Duration::from_secs(3_600),
            fetcher: Arc::new(self.clone()),
        }
    }

    pub(crate) fn single_sign_on(&self, public_url: &str) -> SingleSignOn {
        SingleSignOn::new(self.config(public_url)).expect("the settings are valid")
    }

    /// Prepares the ID token of a person, for a sign-in with this nonce and PKCE challenge.
    #[expect(clippy::disallowed_methods, reason = "a provider has a clock of its own")]
    pub(crate) fn prepare(&self, nonce: &str, challenge: &str, groups: &Value) {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = now.expect("the clock is after 1970").as_secs();
        let claims = json!({
            "iss": ISSUER, "aud": "noetl", "sub": "u-7", "nonce": nonce, "iat": now, "exp": now + 300,
            "preferred_username": "ada", "groups": groups,
        });
        let mut state = self.state();
        state.claims.clone_from(claims.as_object().expect("an object"));
        challenge.clone_into(&mut state.challenge);
    }

    /// Changes a claim of the next ID token.
    pub(crate) fn set_claim(&self, name: &str, value: Value) {
        self.state().claims.insert(name.to_owned(), value);
    }

    /// Signs the next ID tokens with a key that is not published under its ID.
    pub(crate) fn forge_signatures(&self) {
        let mut state = self.state();
        let id = state.key.id.clone();
        state.forged_key = Some(SigningKey::generate(&id));
    }

    /// Uses another header for the next ID tokens.
    pub(crate) fn set_header(&self, header: Value) {
        self.state().header = Some(header);
    }

    /// Replaces the key.
    pub(crate) fn rotate_key(&self, id: &str) {
        self.state().key = SigningKey::generate(id);
    }

    pub(crate) fn set_down(&self, is_down: bool) {
        self.state().is_down = is_down;
    }

    /// Refuses the next codes with this error.
    pub(crate) fn refuse_codes(&self, error: &'static str) {
        self.state().token_error = Some(error);
    }

    /// How many requests had this path.
    pub(crate) fn count_requests(&self, path: &str) -> usize {
        self.state().requests.iter().filter(|url| url.ends_with(path)).count()
    }
}

impl ProviderState {
    fn respond(&self, request: &FetchRequest) -> FetchResponse {
        let path = request.url.strip_prefix(ISSUER).unwrap_or_default();
        let (status, body) = match path {
            "/.well-known/openid-configuration" => (200, discovery()),
            "/keys" => (200, json!({"keys": [self.key.public()]})),
            "/token" => self.exchange(request.form.as_ref().expect("a form")),
            _ => (404, Value::Null),
        };
        FetchResponse { status, body }
    }

    fn exchange(&self, form: &Value) -> (u16, Value) {
        let verifier = form["code_verifier"].as_str().unwrap_or_default();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let is_valid = form["code"] == "good-code" && challenge == self.challenge && form["client_id"] == "noetl";
        match self.token_error {
            Some(error) => (400, json!({ "error": error })),
            None if !is_valid => (400, json!({"error": "invalid_grant"})),
            None => (200, json!({"token_type": "Bearer", "id_token": self.sign()})),
        }
    }

    fn sign(&self) -> String {
        let key = self.forged_key.as_ref().unwrap_or(&self.key);
        let header = json!({"alg": "ES256", "kid": key.id});
        let header = self.header.clone().unwrap_or(header);
        let parts = [header, Value::Object(self.claims.clone())];
        let message = parts.map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
        let signature = key.pair.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.expect("a text can be signed");
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn discovery() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": format!("{ISSUER}/auth"),
        "token_endpoint": format!("{ISSUER}/token"),
        "jwks_uri": format!("{ISSUER}/keys"),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
    })
}

#[async_trait]
impl SecretFetcher for FakeProvider {
    async fn fetch(&self, request: FetchRequest) -> Result<FetchResponse, FetchError> {
        let mut state = self.state();
        state.requests.push(request.url.clone());
        if state.is_down {
            return Err(FetchError {
                reason: "connection refused".to_owned(),
                is_transient: true,
            });
        }
        Ok(state.respond(&request))
    }
}
