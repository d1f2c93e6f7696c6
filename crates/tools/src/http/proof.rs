//! Authentication that takes more than a static header: an OAuth 2 token, or a response to a digest challenge.
//!
//! A 401 response is handled once: with a new token, or with the response to the challenge.

use std::time::SystemTime;

use model::outcome::TaskError;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use crate::http::auth::{Auth, bearer};
use crate::http::client::{Clients, Pace, Sent};
use crate::http::digest::Asked;
use crate::http::request::Request;

/// Authentication state of one exchange.
pub(crate) struct Proof<'a> {
    auth: &'a Auth,
    clients: &'a Clients,
    pace: Pace,
    token: Option<String>,
    may_answer: bool,
}

impl<'a> Proof<'a> {
    pub(crate) fn begin(auth: &'a Auth, clients: &'a Clients, pace: Pace) -> Self {
        Self {
            auth,
            clients,
            pace,
            token: None,
            may_answer: matches!(auth, Auth::Granted(_) | Auth::Digest(_)),
        }
    }

    /// Adds the token to a request, unless the playbook sets the `Authorization` header.
    pub(crate) async fn put_into(&mut self, request: &mut Request) -> Result<(), TaskError> {
        if request.headers.contains_key(AUTHORIZATION) {
            self.may_answer = false;
            return Ok(());
        }
        if let Auth::Granted(grant) = self.auth {
            let tokens = &self.clients.tokens;
            let token = tokens.get(grant, self.clients, self.pace, None).await?;
            request.authorise(bearer(&token)?);
            self.token = Some(token);
        }
        Ok(())
    }

    /// Handles a 401 response. Returns `None` if the request must be sent again, else the response unchanged.
    pub(crate) async fn answer(
        &mut self,
        sent: Sent,
        request: &mut Request,
    ) -> Result<Option<Sent>, TaskError> {
        if !self.may_answer || sent.response.status() != StatusCode::UNAUTHORIZED {
            return Ok(Some(sent));
        }
        self.may_answer = false;
        match self.auth {
            // A redirect to another origin removed the header; it must not be added again.
            Auth::Granted(grant) if request.headers.contains_key(AUTHORIZATION) => {
                // The token endpoint may be on the same host, so release this request's permit before asking for one.
                drop(sent);
                let refused = self.token.as_deref();
                let tokens = &self.clients.tokens;
                let token = tokens.get(grant, self.clients, self.pace, refused).await?;
                request.authorise(bearer(&token)?);
                Ok(None)
            }
            Auth::Digest(login) if !request.has_left => {
                let uri = match request.url.query() {
                    Some(query) => format!("{}?{query}", request.url.path()),
                    None => request.url.path().to_owned(),
                };
                let asked = Asked {
                    method: request.method.as_str(),
                    uri: &uri,
                    cnonce: &cnonce(),
                };
                let challenges = sent.response.headers().get_all(WWW_AUTHENTICATE);
                for challenge in challenges.iter().filter_map(|value| value.to_str().ok()) {
                    if let Some(answer) = login.answer(challenge, &asked)? {
                        request.authorise(answer);
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
fn cnonce() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{:032x}", now.unwrap_or_default().as_nanos())
}
