//! Proving who asks where that takes more than a header of the credential: a token first, or an answer to a challenge.
//!
//! A refusal is answered once: with a fresh token, or with what the challenge asks for.

use std::time::SystemTime;

use model::outcome::TaskError;
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, WWW_AUTHENTICATE};

use crate::http::auth::{Auth, bearer};
use crate::http::client::{Clients, Pace, Sent};
use crate::http::digest::Asked;
use crate::http::request::Request;

/// The proof of one exchange.
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

    /// Puts the token into a request, unless the author wrote the header himself.
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

    /// Answers a refusal; then nothing comes back and the request is to be sent again. Anything else comes back.
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
            // A redirect that left the origin took the header away, and it stays away.
            Auth::Granted(grant) if request.headers.contains_key(AUTHORIZATION) => {
                // The token may be had at the same host, where all turns may be held by requests like this one.
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

/// Text that no answer before had: it need not be secret.
fn cnonce() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    format!("{:032x}", now.unwrap_or_default().as_nanos())
}
