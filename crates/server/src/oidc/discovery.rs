//! The discovery document of the provider: its addresses, and what it supports.

use serde_json::Value;

use crate::oidc::error::{SignInError, short_text};
use crate::oidc::url::HttpUrl;

/// What the provider supports, from its discovery document.
#[derive(Debug)]
pub(crate) struct Endpoints {
    /// Where the browser goes.
    pub(crate) authorization: String,
    /// Where a code is exchanged.
    pub(crate) token: String,
    /// Where the keys are.
    pub(crate) keys: String,
    /// Whether the client secret can be sent in a header.
    pub(crate) has_basic_auth: bool,
    /// Whether it names itself when it sends the browser back.
    pub(crate) has_issuer_parameter: bool,
}

impl Endpoints {
    /// Reads a discovery document.
    pub(crate) fn parse(document: &Value, issuer: &str) -> Result<Self, SignInError> {
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        if text("issuer") != Some(issuer) {
            let actual = short_text(text("issuer").unwrap_or("nothing"));
            let reason = format!("the discovery document has the issuer {actual:?}, but `oidc_issuer` is {issuer:?}");
            return Err(SignInError::invalid_response(reason));
        }
        let url = |name: &str| {
            let url = text(name).filter(|url| HttpUrl::parse(url).is_some_and(|url| url.is_protected()));
            let reason = || format!("the discovery document has no https URL `{name}`");
            url.map(str::to_owned)
                .ok_or_else(|| SignInError::invalid_response(reason()))
        };
        let lists = |name: &str, value: &str| {
            let list = document.get(name).and_then(Value::as_array);
            list.map(|list| list.iter().any(|entry| entry == value))
        };
        if lists("code_challenge_methods_supported", "S256") == Some(false) {
            return Err(SignInError::invalid_response(
                "the provider does not support PKCE with S256",
            ));
        }
        Ok(Self {
            authorization: url("authorization_endpoint")?,
            token: url("token_endpoint")?,
            keys: url("jwks_uri")?,
            has_basic_auth: lists("token_endpoint_auth_methods_supported", "client_secret_basic").unwrap_or(true),
            has_issuer_parameter: document.get("authorization_response_iss_parameter_supported")
                == Some(&Value::Bool(true)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::oidc::error::SignInFailureKind;

    fn discovery(changes: &Value) -> Value {
        let mut document = json!({
            "issuer": "https://login.example",
            "authorization_endpoint": "https://login.example/auth",
            "token_endpoint": "https://login.example/token",
            "jwks_uri": "https://login.example/keys",
        });
        let changes = changes.as_object().unwrap().clone();
        document.as_object_mut().unwrap().extend(changes);
        document
    }

    fn parse(changes: &Value) -> Result<Endpoints, SignInError> {
        Endpoints::parse(&discovery(changes), "https://login.example")
    }

    #[test]
    fn the_discovery_document_selects_how_the_client_authenticates() {
        let has_basic_auth = |methods: Value| {
            let methods = json!({"token_endpoint_auth_methods_supported": methods});
            parse(&methods).unwrap().has_basic_auth
        };
        assert!(
            parse(&json!({})).unwrap().has_basic_auth,
            "the default of the specification"
        );
        assert!(has_basic_auth(json!(["client_secret_post", "client_secret_basic"])));
        assert!(!has_basic_auth(json!(["client_secret_post"])));
    }

    #[test]
    fn an_unusable_discovery_document_is_refused() {
        for changes in [
            json!({"issuer": "https://login.example/"}),
            json!({"issuer": null}),
            json!({"authorization_endpoint": "http://login.example/auth"}),
            json!({"token_endpoint": null}),
            json!({"jwks_uri": "file:///keys"}),
            json!({"code_challenge_methods_supported": ["plain"]}),
        ] {
            let error = parse(&changes).unwrap_err();
            assert_eq!(error.kind, SignInFailureKind::ResponseInvalid, "{changes}");
        }
    }
}
