//! Requests to the identity provider: discovery, keys, and the exchange of a code for an ID token.
//!
//! A sign-in costs one request, plus two when the cached documents are not fresh. Existing sessions need none.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::time::Time;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::keychain::{FetchRequest, FetchResponse};
use crate::oidc::cache::DocumentCache;
use crate::oidc::config::{ClientAuth, ClientSecret, OidcConfig, SingleSignOn};
use crate::oidc::discovery::Endpoints;
use crate::oidc::error::{SignInError, SignInFailureKind, short_text};
use crate::oidc::id_token::ExpectedClaims;
use crate::oidc::key_set::{KeySet, SignatureVerdict};
use crate::oidc::pending_sign_in::PendingSignIn;
use crate::oidc::signed_token::SignedToken;
use crate::oidc::url::{encode_component, with_parameters};
use crate::oidc::user::SignedInUser;

/// Timeout of a request; three of them fit into the timeout of a route.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum number of codes that are exchanged at the same time; further sign-ins fail with `OIDC_BUSY`.
const EXCHANGES_MAX: usize = 16;

/// The provider with its cached documents.
pub(super) struct Provider {
    config: Arc<OidcConfig>,
    endpoints: DocumentCache<Endpoints>,
    keys: DocumentCache<KeySet>,
    exchanges: Semaphore,
}

/// What the browser brings back from the provider.
pub(crate) struct AuthorizationCode<'c> {
    /// The code.
    pub(crate) code: &'c str,
    /// The provider that issued it, if it says so.
    pub(crate) issuer: Option<&'c str>,
}

impl SingleSignOn {
    /// The URL of the provider to which the browser goes.
    pub(crate) async fn authorization_url(&self, sign_in: &PendingSignIn) -> Result<String, SignInError> {
        let endpoints = self.provider.endpoints().await?;
        let config = &self.config;
        let scopes = config.scopes.iter().filter(|scope| *scope != "openid");
        let scopes = scopes.fold("openid".to_owned(), |all, scope| format!("{all} {scope}"));
        let parameters = [
            ("response_type", "code"),
            ("client_id", &config.client_id),
            ("redirect_uri", &config.redirect_url()),
            ("scope", &scopes),
            ("state", &sign_in.state),
            ("nonce", &sign_in.nonce),
            ("code_challenge", &sign_in.challenge()),
            ("code_challenge_method", "S256"),
        ];
        Ok(with_parameters(&endpoints.authorization, &parameters))
    }

    /// Exchanges a code for an ID token, and checks it.
    pub(crate) async fn redeem(
        &self,
        code: AuthorizationCode<'_>,
        sign_in: &PendingSignIn,
        now: Time,
    ) -> Result<SignedInUser, SignInError> {
        let provider = &self.provider;
        let endpoints = provider.endpoints().await?;
        let is_own = match code.issuer {
            Some(issuer) => issuer == self.config.issuer,
            None => !endpoints.has_issuer_parameter,
        };
        if !is_own {
            let reason = "the browser returned from another provider (`iss`)";
            return Err(SignInError::new(SignInFailureKind::StateInvalid, reason));
        }
        let token = provider.exchange_code(&endpoints, code.code, sign_in).await?;
        let token = SignedToken::parse(&token)?;
        provider.check_signature(&endpoints, &token).await?;
        let claims = token.into_claims();
        let expected = ExpectedClaims {
            issuer: &self.config.issuer,
            client_id: &self.config.client_id,
            nonce: &sign_in.nonce,
            started_at: sign_in.started_at(),
            now,
        };
        expected.check(&claims)?;
        SignedInUser::from_claims(&claims, &self.config.role_claim, &self.config.roles)
    }
}

impl Provider {
    pub(super) fn new(config: Arc<OidcConfig>) -> Self {
        Self {
            config,
            endpoints: DocumentCache::default(),
            keys: DocumentCache::default(),
            exchanges: Semaphore::new(EXCHANGES_MAX),
        }
    }

    async fn endpoints(&self) -> Result<Arc<Endpoints>, SignInError> {
        let issuer = &self.config.issuer;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let request = async { Endpoints::parse(&self.get_document(url).await?, issuer) };
        self.endpoints.get(request).await
    }

    async fn check_signature(&self, endpoints: &Endpoints, token: &SignedToken<'_>) -> Result<(), SignInError> {
        let check = |keys: &KeySet| {
            keys.check_signature(
                token.algorithm,
                token.key_id.as_deref(),
                token.message,
                &token.signature,
            )
        };
        let keys = self.keys.get(self.request_keys(endpoints)).await?;
        let mut verdict = check(&keys);
        // The provider may have changed its keys since they were read.
        if verdict == SignatureVerdict::UnknownKey
            && let Some(keys) = self.keys.refresh(self.request_keys(endpoints)).await?
        {
            verdict = check(&keys);
        }
        match verdict {
            SignatureVerdict::Valid => Ok(()),
            SignatureVerdict::Invalid => Err(SignInError::invalid_token("the signature of the ID token is wrong")),
            SignatureVerdict::UnknownKey => Err(SignInError::invalid_token(
                "the key that signed the ID token is not among the keys of the provider",
            )),
        }
    }

    async fn request_keys(&self, endpoints: &Endpoints) -> Result<KeySet, SignInError> {
        let document = self.get_document(endpoints.keys.clone()).await?;
        KeySet::parse(&document).ok_or_else(|| SignInError::invalid_response("the key document has no list `keys`"))
    }

    async fn exchange_code(
        &self,
        endpoints: &Endpoints,
        code: &str,
        sign_in: &PendingSignIn,
    ) -> Result<String, SignInError> {
        let permit = self.exchanges.try_acquire();
        let _permit = permit.map_err(|_| {
            let reason = format!("{EXCHANGES_MAX} codes are being exchanged");
            SignInError::new(SignInFailureKind::Busy, reason)
        })?;
        let response = self.send(self.token_request(endpoints, code, sign_in));
        read_id_token(&response.await?)
    }

    fn token_request(&self, endpoints: &Endpoints, code: &str, sign_in: &PendingSignIn) -> FetchRequest {
        let mut headers = Map::new();
        let mut form = Map::from_iter([
            ("grant_type".to_owned(), json!("authorization_code")),
            ("code".to_owned(), json!(code)),
            ("redirect_uri".to_owned(), json!(self.config.redirect_url())),
            ("code_verifier".to_owned(), json!(sign_in.verifier)),
        ]);
        match (&self.config.client_secret, self.client_auth(endpoints)) {
            (Some(secret), ClientAuth::Basic) => {
                let credentials = basic_credentials(&self.config.client_id, secret);
                headers.insert("Authorization".to_owned(), credentials.into());
            }
            (secret, _) => {
                form.insert("client_id".to_owned(), json!(self.config.client_id));
                let secret = secret.as_ref().map(|secret| json!(secret.reveal()));
                form.extend(secret.map(|secret| ("client_secret".to_owned(), secret)));
            }
        }
        FetchRequest {
            method: "POST".to_owned(),
            url: endpoints.token.clone(),
            headers,
            form: Some(Value::Object(form)),
            json: None,
            is_operator_url: true,
        }
    }

    fn client_auth(&self, endpoints: &Endpoints) -> ClientAuth {
        let supported = if endpoints.has_basic_auth {
            ClientAuth::Basic
        } else {
            ClientAuth::Post
        };
        self.config.client_auth.unwrap_or(supported)
    }

    async fn get_document(&self, url: String) -> Result<Value, SignInError> {
        let name = url.clone();
        let response = self.send(FetchRequest {
            method: "GET".to_owned(),
            url,
            headers: Map::new(),
            form: None,
            json: None,
            is_operator_url: true,
        });
        match response.await? {
            FetchResponse { status: 200, body } => Ok(body),
            FetchResponse { status, .. } => Err(unexpected_status(&name, status)),
        }
    }

    async fn send(&self, mut request: FetchRequest) -> Result<FetchResponse, SignInError> {
        let url = request.url.clone();
        request.headers.insert("Accept".to_owned(), "application/json".into());
        let unreachable = |reason| SignInError::new(SignInFailureKind::Unreachable, format!("{url}: {reason}"));
        match tokio::time::timeout(REQUEST_TIMEOUT, self.config.fetcher.fetch(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(error.to_string())),
            Err(_) => Err(unreachable(format!(
                "no response within {} s",
                REQUEST_TIMEOUT.as_secs()
            ))),
        }
    }
}

/// The ID token in the response of the token endpoint.
fn read_id_token(response: &FetchResponse) -> Result<String, SignInError> {
    let FetchResponse { status, body } = response;
    if *status == 200 {
        let token = body.get("id_token").and_then(Value::as_str);
        let missing = || SignInError::invalid_response("the response of the token endpoint has no `id_token`");
        return token.map(str::to_owned).ok_or_else(missing);
    }
    match body.get("error").and_then(Value::as_str) {
        Some(code) if (400..500).contains(status) => {
            let reason = format!("the token endpoint returned the error {:?}", short_text(code));
            Err(SignInError::new(SignInFailureKind::CodeRefused, reason))
        }
        _ => Err(unexpected_status("the token endpoint", *status)),
    }
}

fn unexpected_status(source: &str, status: u16) -> SignInError {
    let kind = match status {
        408 | 429 | 500.. => SignInFailureKind::Unreachable,
        400 | 401 => SignInFailureKind::CodeRefused,
        _ => SignInFailureKind::ResponseInvalid,
    };
    SignInError::new(kind, format!("{source} returned status {status}"))
}

/// Value of the `Authorization` header. ID and secret are encoded first, as OAuth demands.
fn basic_credentials(client_id: &str, secret: &ClientSecret) -> String {
    let credentials = format!("{}:{}", encode_component(client_id), encode_component(secret.reveal()));
    format!("Basic {}", STANDARD.encode(credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_response_of_the_token_endpoint_is_classified() {
        let read = |status, body| read_id_token(&FetchResponse { status, body }).map_err(|error| error.kind);
        assert_eq!(read(200, json!({"id_token": "a.b.c"})).unwrap(), "a.b.c");
        assert_eq!(read(200, json!({})), Err(SignInFailureKind::ResponseInvalid));
        assert_eq!(
            read(400, json!({"error": "invalid_grant"})),
            Err(SignInFailureKind::CodeRefused)
        );
        assert_eq!(read(401, Value::Null), Err(SignInFailureKind::CodeRefused));
        assert_eq!(read(503, json!({"error": "x"})), Err(SignInFailureKind::Unreachable));
        assert_eq!(read(302, Value::Null), Err(SignInFailureKind::ResponseInvalid));
    }

    #[test]
    fn special_characters_in_credentials_are_encoded() {
        let header = basic_credentials("a:b", &ClientSecret::new("c%d"));
        assert_eq!(header, format!("Basic {}", STANDARD.encode("a%3Ab:c%25d")));
    }
}
