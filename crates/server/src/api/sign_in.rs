//! Sign-in of the web client: starts, reads and ends sessions.

use axum::extract::State;
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use model::time::Time;
use wire::api::{CallerSession, Role, SignInMode, SignInProvider, SignInRequest};

use crate::api::access::{AccessMode, Principal, check_token, identify, token_digest, unauthenticated};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::JsonBody;
use crate::api::guard::is_encrypted;
use crate::api::state::ApiState;
use crate::api::web_session::{SESSION_DURATION, WebSession, WebSessionHolder, cookie_text, remove_cookie, set_cookie};
use crate::api::{ApiResult, Json};

/// Read whether callers must sign in, and who is signed in.
#[utoipa::path(get, path = "/api/session", tag = "system",
    responses((status = 200, description = "the session", body = CallerSession), ErrorResponses))]
pub(crate) async fn show(State(api): State<ApiState>, parts: Parts) -> ApiResult<CallerSession> {
    let session = api.find_web_session(&parts.headers).await?;
    let principal = match identify(&parts, &api).await {
        Ok(principal) => Some(principal),
        Err(error) if error.is_unauthenticated() => None,
        Err(error) => return Err(error),
    };
    Ok(Json(caller_session(
        &api,
        principal.as_ref(),
        session.map(|session| session.expires_at),
    )))
}

/// Sign in with an access token. The response sets a cookie that stands for the token for 12 hours.
#[utoipa::path(post, path = "/api/session", tag = "system", request_body = SignInRequest,
    responses((status = 200, description = "the session", body = CallerSession), ErrorResponses))]
pub(crate) async fn create(
    State(api): State<ApiState>,
    parts: Parts,
    JsonBody(request): JsonBody<SignInRequest>,
) -> Result<Response, ApiError> {
    let token = request.token.trim();
    let principal = check_token(&parts, &api, token).await?;
    if principal == Principal::Server {
        return Err(unauthenticated("servers do not sign in"));
    }
    if principal == Principal::Anyone {
        return Ok(Json(caller_session(&api, Some(&principal), None)).into_response());
    }
    let holder = WebSessionHolder::Token(token_digest(token));
    let session = WebSession::start(holder, api.store().now(), SESSION_DURATION);
    let key = api.web_session_key.get(&**api.store()).await?;
    let cookie = set_cookie(&session.seal(key), SESSION_DURATION, is_encrypted(&api, &parts.headers));
    let session = caller_session(&api, Some(&principal), Some(session.expires_at));
    Ok(([(SET_COOKIE, cookie)], Json(session)).into_response())
}

/// Sign out: the session ends on all servers within 2 seconds.
#[utoipa::path(delete, path = "/api/session", tag = "system",
    responses((status = 204, description = "the session has ended"), ErrorResponses))]
pub(crate) async fn end(State(api): State<ApiState>, headers: HeaderMap) -> Result<Response, ApiError> {
    if let Some(session) = api.find_web_session(&headers).await? {
        session.end(&**api.store()).await?;
        api.tokens.clear();
    }
    let cookie = remove_cookie(is_encrypted(&api, &headers));
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, cookie)]).into_response())
}

fn caller_session(api: &ApiState, principal: Option<&Principal>, expires_at: Option<Time>) -> CallerSession {
    let (role, name) = match principal {
        None | Some(Principal::Server) => (None, None),
        Some(Principal::Anyone) => (Some(Role::Admin), None),
        Some(Principal::Token { name, role, .. }) => (Some(*role), Some(name.clone())),
        Some(Principal::User(user)) => (Some(user.role), Some(user.name.clone())),
    };
    CallerSession {
        auth: match api.access {
            AccessMode::Open => SignInMode::Open,
            AccessMode::Tokens => SignInMode::Required,
        },
        role,
        name,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        expires_at: expires_at.filter(|_| role.is_some()),
        single_sign_on: api.single_sign_on.as_ref().map(|sign_on| SignInProvider {
            name: sign_on.name().to_owned(),
        }),
    }
}

impl ApiState {
    /// The session in the cookie of a request, if it is valid.
    pub(crate) async fn find_web_session(&self, headers: &HeaderMap) -> Result<Option<WebSession>, ApiError> {
        let Some(text) = cookie_text(headers) else {
            return Ok(None);
        };
        let store = &**self.store();
        let key = self.web_session_key.get(store).await?;
        let Some(session) = WebSession::open(text, key) else {
            return Ok(None);
        };
        let is_current = match &session.holder {
            WebSessionHolder::Token(_) => true,
            // Another provider, or other rules for roles, may give the person another role.
            WebSessionHolder::User(user) => {
                let sign_on = self.single_sign_on.as_ref();
                sign_on.is_some_and(|sign_on| *sign_on.fingerprint() == user.fingerprint)
            }
        };
        Ok((is_current && !session.has_ended(store).await?).then_some(session))
    }
}
