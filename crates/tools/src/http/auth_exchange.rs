//! Authentication that takes more than a static header: an OAuth 2 token, or a response to a digest challenge.
//!
//! A 401 response is handled once: with a new token, or with the response to the challenge.

use std::time::SystemTime;

use model::outcome::TaskError;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use crate::http::auth::{HttpAuth, bearer_header};
use crate::http::client::{HttpClients, PeerTimeouts, PendingResponse};
use crate::http::digest::DigestInput;
use crate::http::request::HttpRequest;

/// Authentication state of one exchange.
pub struct AuthExchange<'a> {
    auth: &'a HttpAuth,
    clients: &'a HttpClients,
    timeouts: PeerTimeouts,
    token: Option<String>,
    may_retry: bool,
}

impl<'a> AuthExchange<'a> {
    pub fn new(auth: &'a HttpAuth, clients: &'a HttpClients, timeouts: PeerTimeouts) -> Self {
        Self {
            auth,
            clients,
            timeouts,
            token: None,
            may_retry: matches!(auth, HttpAuth::Oauth(_) | HttpAuth::Digest(_)),
        }
    }

    /// Adds the token to a request, unless the playbook sets the `Authorization` header.
    pub async fn apply_token(&mut self, request: &mut HttpRequest) -> Result<(), TaskError> {
        if request.headers.contains_key(AUTHORIZATION) {
            self.may_retry = false;
            return Ok(());
        }
        if let HttpAuth::Oauth(grant) = self.auth {
            let tokens = &self.clients.tokens;
            let token = tokens.token(grant, self.clients, self.timeouts, None).await?;
            request.set_authorization(bearer_header(&token)?);
            self.token = Some(token);
        }
        Ok(())
    }

    /// Handles a 401 response. Returns `None` if the request must be sent again, else the response unchanged.
    pub async fn retry_refused(
        &mut self,
        sent: PendingResponse,
        request: &mut HttpRequest,
    ) -> Result<Option<PendingResponse>, TaskError> {
        if !self.may_retry || sent.response.status() != StatusCode::UNAUTHORIZED {
            return Ok(Some(sent));
        }
        self.may_retry = false;
        match self.auth {
            // A redirect to another origin removed the header; it must not be added again.
            HttpAuth::Oauth(grant) if request.headers.contains_key(AUTHORIZATION) => {
                // The token endpoint may be on the same host, so release this request's permit before asking for one.
                drop(sent);
                let refused = self.token.as_deref();
                let tokens = &self.clients.tokens;
                let token = tokens.token(grant, self.clients, self.timeouts, refused).await?;
                request.set_authorization(bearer_header(&token)?);
                Ok(None)
            }
            HttpAuth::Digest(login) if !request.is_cross_origin => {
                let uri = match request.url.query() {
                    Some(query) => format!("{}?{query}", request.url.path()),
                    None => request.url.path().to_owned(),
                };
                let input = DigestInput {
                    method: request.method.as_str(),
                    uri: &uri,
                    cnonce: &new_cnonce(),
                };
                let challenges = sent.response.headers().get_all(WWW_AUTHENTICATE);
                for challenge in challenges.iter().filter_map(|value| value.to_str().ok()) {
                    if let Some(header) = login.response_header(challenge, &input)? {
                        request.set_authorization(header);
                        return Ok(None);
                    }
                }
                Ok(Some(sent))
            }
            _ => Ok(Some(sent)),
        }
    }
}

/// A unique client nonce; it need not be secret.
fn new_cnonce() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{:032x}", now.unwrap_or_default().as_nanos())
}
