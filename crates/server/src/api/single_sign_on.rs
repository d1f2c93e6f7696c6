//! Single sign-on in the browser: sends it to the identity provider, and starts a session when it returns.
//!
//! The provider is another site, so the browser does not send the session cookie (`SameSite=Strict`) when it returns.
//! It sends the cookie of the sign-in (`SameSite=Lax`), gets the session cookie, and goes to a page of the client, whose
//! requests come from this site.

use axum::extract::State;
use axum::http::header::{LOCATION, SET_COOKIE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use model::raw::RawJson;
use serde::Deserialize;
use serde_json::json;
use store::{AuditEntry, AuditOutcome};
use utoipa::IntoParams;
use wire::api::SignInFailure;

use crate::api::access::{record_failure, source_address};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::extract::{PathParam, QueryParams};
use crate::api::guard::is_encrypted;
use crate::api::state::ApiState;
use crate::api::web_session::{SessionUser, WebSession, WebSessionHolder, find_cookie, set_cookie};
use crate::api::{ApiResult, Json};
use crate::oidc::{
    AuthorizationCode, PendingSignIn, ReturnPath, SIGN_IN_DURATION, SignInError, SignInFailureKind, SignedInUser,
    SingleSignOn, short_text,
};

/// Name of the cookie of a sign-in over TLS. Browsers accept it only from this host, not from a host of the same domain.
const ENCRYPTED_COOKIE: &str = "__Host-noetl_sign_in";
/// Its name without TLS.
const PLAIN_COOKIE: &str = "noetl_sign_in";
/// Action in the audit log.
const AUDIT_ACTION: &str = "session.start";

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartParams {
    /// Page to which the browser goes after the sign-in: a path below the root of the client. Default, also for any
    /// other text: `/`.
    #[param(max_length = 1024)]
    return_to: Option<String>,
}

/// Sign in at the identity provider. The browser goes there, and returns to `/api/session/oidc/callback` within 10
/// minutes. If the provider does not respond, the browser goes to the sign-in page of the client.
#[utoipa::path(get, path = "/api/session/oidc/start", tag = "system", params(StartParams),
    responses((status = 303, description = "the browser goes to the identity provider"), ErrorResponses))]
pub(crate) async fn start(
    State(api): State<ApiState>,
    parts: Parts,
    QueryParams(params): QueryParams<StartParams>,
) -> Result<Response, ApiError> {
    let sign_on = api.require_single_sign_on()?;
    let return_path = ReturnPath::new(params.return_to.as_deref().unwrap_or("/"));
    let pending = PendingSignIn::start(return_path, api.store().now());
    match sign_on.authorization_url(&pending).await {
        Ok(url) => {
            let key = api.web_session_key.get(&**api.store()).await?;
            let cookie = sign_in_cookie(sign_on, &pending.seal(key));
            Ok(redirect(&url, [cookie]))
        }
        Err(error) => {
            let kind = audit_failure(&parts, &api, sign_on, &error).await;
            Ok(redirect(&failure_page(sign_on, kind, &pending.return_path), []))
        }
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallbackParams {
    /// Code that the provider issued.
    code: Option<String>,
    /// Text that identifies the sign-in.
    state: Option<String>,
    /// Error of the provider.
    error: Option<String>,
    /// The provider, if it names itself.
    iss: Option<String>,
}

/// Complete a sign-in, with what the identity provider adds to this address. The response sets the session cookie and
/// leads to the page at which the sign-in began; after a failure it leads to the sign-in page with the code of the
/// failure. Costs one request to the provider, and two more if its cached documents are older than an hour.
#[utoipa::path(get, path = "/api/session/oidc/callback", tag = "system", params(CallbackParams),
    responses((status = 303, description = "the browser goes to a page of the client"), ErrorResponses))]
pub(crate) async fn complete(
    State(api): State<ApiState>,
    parts: Parts,
    QueryParams(params): QueryParams<CallbackParams>,
) -> Result<Response, ApiError> {
    let sign_on = api.require_single_sign_on()?;
    let pending = find_pending_sign_in(sign_on, &api, &parts.headers).await?;
    let pending = pending.filter(|pending| params.state.as_deref() == Some(&*pending.state));
    let Some(pending) = pending else {
        // The cookie stays: a page of another site must not end a sign-in that is under way.
        let error = SignInError::new(
            SignInFailureKind::StateInvalid,
            "`state` does not fit the cookie of a sign-in",
        );
        let kind = audit_failure(&parts, &api, sign_on, &error).await;
        return Ok(redirect(&failure_page(sign_on, kind, &ReturnPath::new("/")), []));
    };
    match redeem(sign_on, &api, &params, &pending).await {
        Ok(user) => start_session(&parts, &api, sign_on, user, &pending.return_path).await,
        Err(error) => {
            let kind = audit_failure(&parts, &api, sign_on, &error).await;
            let page = failure_page(sign_on, kind, &pending.return_path);
            Ok(redirect(&page, [sign_in_cookie(sign_on, "")]))
        }
    }
}

/// Read the text of a sign-in failure, by the code that the sign-in page has in its address.
#[utoipa::path(get, path = "/api/session/oidc/failures/{code}", tag = "system", params(("code" = String, Path)),
    responses((status = 200, description = "the failure", body = SignInFailure), ErrorResponses))]
pub(crate) async fn show_failure(PathParam(code): PathParam) -> ApiResult<SignInFailure> {
    let unknown = || ApiError::not_found("NOT_FOUND", "there is no sign-in failure with this code");
    let kind = SignInFailureKind::find(&code).ok_or_else(unknown)?;
    Ok(Json(kind.describe()))
}

impl ApiState {
    fn require_single_sign_on(&self) -> Result<&SingleSignOn, ApiError> {
        self.single_sign_on.as_ref().ok_or_else(|| {
            let detail = "single sign-on is not configured on this server";
            ApiError::not_found("OIDC_NOT_CONFIGURED", detail)
                .with_remedy("sign in with an access token, or set `oidc_issuer`")
        })
    }
}

async fn find_pending_sign_in(
    sign_on: &SingleSignOn,
    api: &ApiState,
    headers: &HeaderMap,
) -> Result<Option<PendingSignIn>, ApiError> {
    let Some(text) = find_cookie(headers, &[cookie_name(sign_on)]) else {
        return Ok(None);
    };
    let key = api.web_session_key.get(&**api.store()).await?;
    Ok(PendingSignIn::open(text, key, api.store().now()))
}

/// Checks what the browser brought back from the provider.
async fn redeem(
    sign_on: &SingleSignOn,
    api: &ApiState,
    params: &CallbackParams,
    pending: &PendingSignIn,
) -> Result<SignedInUser, SignInError> {
    if let Some(code) = &params.error {
        let kind = match code.as_str() {
            "access_denied" => SignInFailureKind::Denied,
            "temporarily_unavailable" | "server_error" => SignInFailureKind::Unreachable,
            _ => SignInFailureKind::ProviderError,
        };
        let reason = format!("the provider returned the error {:?}", short_text(code));
        return Err(SignInError::new(kind, reason));
    }
    let missing = || SignInError::invalid_response("the provider returned neither a code nor an error");
    let code = AuthorizationCode {
        code: params.code.as_deref().ok_or_else(missing)?,
        issuer: params.iss.as_deref(),
    };
    sign_on.redeem(code, pending, api.store().now()).await
}

async fn start_session(
    parts: &Parts,
    api: &ApiState,
    sign_on: &SingleSignOn,
    user: SignedInUser,
    return_path: &ReturnPath,
) -> Result<Response, ApiError> {
    let user = SessionUser {
        subject: user.subject,
        name: user.name,
        role: user.role,
        fingerprint: sign_on.fingerprint().clone(),
    };
    let entry = AuditEntry {
        actor: user.to_string(),
        outcome: AuditOutcome::Done,
        detail: Some(RawJson::from_serializable(&json!({"role": user.role}))),
        ..audit_entry(parts, sign_on)
    };
    api.store().add_audit_entry(entry).await?;
    let duration = sign_on.session_duration();
    let holder = WebSessionHolder::User(user.into());
    let session = WebSession::start(holder, api.store().now(), duration);
    let key = api.web_session_key.get(&**api.store()).await?;
    let is_encrypted = sign_on.is_encrypted() || is_encrypted(api, &parts.headers);
    let cookie = set_cookie(&session.seal(key), duration, is_encrypted);
    let page = sign_on.page_url(return_path.as_str());
    Ok(redirect(&page, [cookie, sign_in_cookie(sign_on, "")]))
}

/// Records a failed sign-in, unless there were too many from this address. Returns the failure to show. An outage is only
/// logged: if it counted, people could not sign in for a minute after it.
async fn audit_failure(
    parts: &Parts,
    api: &ApiState,
    sign_on: &SingleSignOn,
    error: &SignInError,
) -> SignInFailureKind {
    let code = error.kind.code();
    let is_outage = matches!(error.kind, SignInFailureKind::Unreachable | SignInFailureKind::Busy);
    if !is_outage && !record_failure(parts, api) {
        return SignInFailureKind::TooManyFailures;
    }
    tracing::warn!(code, reason = %error, "sign-in at the identity provider failed");
    if is_outage {
        return error.kind;
    }
    let entry = AuditEntry {
        outcome: AuditOutcome::Denied,
        detail: Some(RawJson::from_serializable(
            &json!({"code": code, "reason": error.reason}),
        )),
        ..audit_entry(parts, sign_on)
    };
    if let Err(error) = api.store().add_audit_entry(entry).await {
        tracing::warn!(%error, "failed to record a failed sign-in in the audit log");
    }
    error.kind
}

fn audit_entry(parts: &Parts, sign_on: &SingleSignOn) -> AuditEntry {
    AuditEntry {
        actor: "single sign-on".to_owned(),
        action: AUDIT_ACTION.into(),
        resource: sign_on.issuer().to_owned(),
        outcome: AuditOutcome::Denied,
        source: source_address(parts),
        detail: None,
    }
}

/// The sign-in page of the client, which shows the failure.
fn failure_page(sign_on: &SingleSignOn, kind: SignInFailureKind, return_path: &ReturnPath) -> String {
    sign_on.page_url(&format!("/sign-in?failure={}", kind.code())) + &return_parameter(return_path)
}

fn return_parameter(return_path: &ReturnPath) -> String {
    match return_path.as_str() {
        "/" => String::new(),
        path => format!("&return_to={}", crate::oidc::encode_component(path)),
    }
}

/// The `Set-Cookie` header that stores a started sign-in, or removes it if the text is empty. The browser must send it
/// when it returns from the provider, which is another site.
fn sign_in_cookie(sign_on: &SingleSignOn, text: &str) -> String {
    let max_age = if text.is_empty() { 0 } else { SIGN_IN_DURATION.as_secs() };
    let name = cookie_name(sign_on);
    // The prefix `__Host-` demands the path `/`.
    let (path, secure) = if sign_on.is_encrypted() {
        ("/".to_owned(), "; Secure")
    } else {
        (format!("{}/api/session/oidc", sign_on.public_path()), "")
    };
    format!("{name}={text}; Path={path}; Max-Age={max_age}; HttpOnly; SameSite=Lax{secure}")
}

fn cookie_name(sign_on: &SingleSignOn) -> &'static str {
    if sign_on.is_encrypted() {
        ENCRYPTED_COOKIE
    } else {
        PLAIN_COOKIE
    }
}

fn redirect<const N: usize>(url: &str, cookies: [String; N]) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, url)]).into_response();
    for cookie in cookies {
        let cookie = cookie.parse().expect("a cookie is plain ASCII");
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    response
}
