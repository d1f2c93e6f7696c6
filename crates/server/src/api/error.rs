//! Converts errors to HTTP, in this place only: problem details with a stable code and a remedy.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::Refusal;
use language::diagnostic::Diagnostic;
use serde_json::Value;
use utoipa::openapi::{Content, RefOr, ResponseBuilder, Responses};
use wire::api::Problem;

use crate::access_tokens::AccessTokenError;
use crate::control::ControlError;
use crate::error::{Error, FREE_SPACE_REMEDY};
use crate::keychain::KeychainError;
use crate::submit::SubmitError;

/// Why a request was not carried out.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: String,
    detail: String,
    remedy: Option<String>,
    errors: Vec<Value>,
}

/// Remedy for a position that cannot be replayed.
const REPLAY_REMEDY: &str =
    "choose one of the first 1,000,000 events, or the newest one; `noetl events` lists the events around any position";

/// Value of the `Retry-After` header, in seconds.
const RETRY_AFTER_S: &str = "1";

impl ApiError {
    /// Creates an error with a code.
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self {
            status,
            code: code.to_owned(),
            detail: detail.into(),
            remedy: None,
            errors: Vec::new(),
        }
    }

    /// The request is invalid.
    pub(crate) fn invalid(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    /// The requested object does not exist.
    pub(crate) fn not_found(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// The request conflicts with the current state.
    pub(crate) fn conflict(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, detail)
    }

    /// The server is temporarily unavailable.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SERVER_UNAVAILABLE", detail)
    }

    /// Whether the caller must authenticate.
    pub(crate) fn is_unauthenticated(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// What failed, and why.
    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Adds a remedy.
    #[must_use]
    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the list of individual errors.
    #[must_use]
    pub(crate) fn with_errors(mut self, errors: Vec<Value>) -> Self {
        self.errors = errors;
        self
    }

    fn into_problem(self) -> Problem {
        let title = self.status.canonical_reason().unwrap_or("Error");
        Problem {
            type_: format!("/docs#{}", self.code),
            title: title.to_owned(),
            status: self.status.as_u16(),
            code: self.code,
            detail: self.detail,
            remedy: self.remedy,
            errors: self.errors,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let status = self.status;
        let body = serde_json::to_vec(&self.into_problem()).unwrap_or_default();
        let json = HeaderValue::from_static("application/problem+json");
        let mut response = (status, [(header::CONTENT_TYPE, json)], body).into_response();
        let headers = response.headers_mut();
        if matches!(status.as_u16(), 429 | 503 | 507) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let error = match error {
            Error::Keychain(KeychainError::Store(error)) => Error::Store(error),
            Error::Keychain(error) => return error.into(),
            error => error,
        };
        let status = match &error {
            Error::NotFound(_) | Error::NoPlaybook(_) | Error::NoVersion { .. } => StatusCode::NOT_FOUND,
            Error::Store(store::Error::Full { .. } | store::Error::ReserveExhausted { .. })
            | Error::Body(::results::Error::Full { .. }) => StatusCode::INSUFFICIENT_STORAGE,
            Error::Store(error) if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
            Error::Body(error) if error.is_missing() => StatusCode::NOT_FOUND,
            Error::OwnedBy(_) | Error::Stopping | Error::Body(_) => StatusCode::SERVICE_UNAVAILABLE,
            Error::TooLarge(..) => StatusCode::PAYLOAD_TOO_LARGE,
            Error::ReplayTooLong(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Error::Store(_) | Error::BrokenLog(_) | Error::Keychain(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        if status.is_server_error() {
            tracing::warn!(%error, "request failed");
        }
        let refused = Self::new(status, error.code(), error.to_string());
        match status {
            StatusCode::INSUFFICIENT_STORAGE => refused.with_remedy(FREE_SPACE_REMEDY),
            _ if refused.code == "REPLAY_TOO_LONG" => refused.with_remedy(REPLAY_REMEDY),
            _ => refused,
        }
    }
}

impl From<KeychainError> for ApiError {
    fn from(error: KeychainError) -> Self {
        let status = match &error {
            KeychainError::Store(_) => {
                return Error::from(error).into();
            }
            KeychainError::NotFound(_) => StatusCode::NOT_FOUND,
            KeychainError::NotDeclared { .. } => StatusCode::FORBIDDEN,
            KeychainError::MasterKeyMissing | KeychainError::Conflict(_) => StatusCode::CONFLICT,
            KeychainError::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            KeychainError::MasterKeyInvalid(_)
            | KeychainError::MasterKeyFile { .. }
            | KeychainError::MasterKeyWrong { .. }
            | KeychainError::Tampered(_) => StatusCode::INTERNAL_SERVER_ERROR,
            KeychainError::Unresolved { .. } | KeychainError::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let mut response = Self::new(status, error.code(), error.to_string());
        response.remedy = error.remedy();
        response
    }
}

impl From<store::Error> for ApiError {
    fn from(error: store::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::TooLarge
            | Refusal::Default(_)
            | Refusal::StepUnknown(_)
            | Refusal::NotALoop
            | Refusal::CursorLoop
            | Refusal::IterationOutOfRange { .. } => Self::invalid(refusal.code(), refusal.to_string()),
            _ => Self::conflict(refusal.code(), refusal.to_string()),
        }
    }
}

impl From<ControlError> for ApiError {
    fn from(error: ControlError) -> Self {
        match error {
            ControlError::Failed(error) => error.into(),
            ControlError::Refused(refusal) => refusal.into(),
        }
    }
}

impl From<SubmitError> for ApiError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Failed(error) => error.into(),
            SubmitError::Invalid(diagnostics) => invalid_playbook(&diagnostics),
            SubmitError::Refused(refusal) => refusal.into(),
            SubmitError::NoPlaybook(path) => {
                let detail = format!("playbook `{path}` is not in the catalog");
                Self::not_found("PLAYBOOK_NOT_FOUND", detail)
                    .with_remedy("register it first: POST /api/catalog/register, or `noetl register FILE`")
            }
        }
    }
}

/// Error for an invalid playbook, with all diagnostics.
pub(crate) fn invalid_playbook(diagnostics: &[Diagnostic]) -> ApiError {
    let first = diagnostics.iter().find(|diagnostic| diagnostic.is_error());
    let detail = first.map_or("the playbook has errors", |diagnostic| diagnostic.message.as_str());
    let errors = diagnostics.iter();
    let errors = errors.filter_map(|diagnostic| serde_json::to_value(diagnostic).ok());
    ApiError::invalid("PLAYBOOK_INVALID", detail).with_errors(errors.collect())
}

impl From<AccessTokenError> for ApiError {
    fn from(error: AccessTokenError) -> Self {
        match error {
            AccessTokenError::InvalidName | AccessTokenError::InvalidExpiry => {
                Self::invalid("BODY_INVALID", error.to_string())
            }
            AccessTokenError::NotFound(_) => Self::not_found("TOKEN_NOT_FOUND", error.to_string()),
            AccessTokenError::Store(error) => error.into(),
        }
    }
}

impl From<wire::Error> for ApiError {
    fn from(error: wire::Error) -> Self {
        match error {
            wire::Error::Fenced(_) => Self::conflict("FENCED", error.to_string()),
            wire::Error::NotFound(missing) => Self::not_found("NOT_FOUND", missing),
            wire::Error::SecretsRefused {
                code,
                detail,
                is_transient,
            } => {
                let status = match code.as_str() {
                    _ if is_transient => StatusCode::SERVICE_UNAVAILABLE,
                    "CREDENTIAL_NOT_FOUND" => StatusCode::NOT_FOUND,
                    "CREDENTIAL_NOT_DECLARED" => StatusCode::FORBIDDEN,
                    _ => StatusCode::CONFLICT,
                };
                Self::new(status, &code, detail)
            }
            wire::Error::SessionReplaced(_) => Self::new(StatusCode::FORBIDDEN, "SESSION_MISMATCH", error.to_string()),
            wire::Error::Refused(reason) => Self::invalid("REPORT_REFUSED", reason),
            wire::Error::Unavailable(source) => {
                tracing::warn!(error = %source, "worker request failed");
                Self::unavailable("the server is temporarily unavailable; retry")
            }
        }
    }
}

/// Error responses that every route may return.
pub(crate) struct ErrorResponses;

impl utoipa::IntoResponses for ErrorResponses {
    fn responses() -> std::collections::BTreeMap<String, RefOr<utoipa::openapi::Response>> {
        let kinds = [
            ("400", "the request is malformed"),
            ("401", "an access token is required"),
            ("403", "the access token lacks the required role"),
            ("404", "not found"),
            ("405", "method not allowed"),
            ("408", "request timeout"),
            ("409", "conflict with the current state"),
            ("413", "the request is too large"),
            ("415", "the body is not JSON"),
            ("421", "the Host header is not allowed"),
            ("422", "the request is invalid"),
            ("429", "too many requests"),
            ("503", "the server is temporarily unavailable"),
            ("507", "the disk is full"),
        ];
        let schema = utoipa::openapi::Ref::from_schema_name("Problem");
        let responses = kinds.into_iter().fold(Responses::builder(), |all, (status, text)| {
            let content = Content::new(Some(schema.clone()));
            let response = ResponseBuilder::new()
                .description(text)
                .content("application/problem+json", content);
            all.response(status, response.build())
        });
        responses.build().responses
    }
}
