//! Why a sign-in failed: a stable code and a text for the person, and a reason for the log and the audit log.

use wire::api::SignInFailure;

/// Maximum length of a text of the provider in a reason.
const TEXT_CHARS_MAX: usize = 100;

/// The cause of a failed sign-in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SignInFailureKind {
    /// The sign-in was not started in this browser, or too long ago.
    StateInvalid,
    /// The person or the provider refused.
    Denied,
    /// The provider reported another error.
    ProviderError,
    /// The provider does not respond.
    Unreachable,
    /// A document of the provider cannot be used.
    ResponseInvalid,
    /// The provider does not accept the code, or this client.
    CodeRefused,
    /// The ID token is not valid.
    TokenInvalid,
    /// The times of the ID token do not fit the clock.
    Clock,
    /// No claim of the person maps to a role.
    NoRole,
    /// Too many sign-ins at once.
    Busy,
    /// Too many failed sign-ins from this address.
    TooManyFailures,
}

impl SignInFailureKind {
    const ALL: [Self; 11] = [
        Self::StateInvalid,
        Self::Denied,
        Self::ProviderError,
        Self::Unreachable,
        Self::ResponseInvalid,
        Self::CodeRefused,
        Self::TokenInvalid,
        Self::Clock,
        Self::NoRole,
        Self::Busy,
        Self::TooManyFailures,
    ];

    /// The stable code.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::StateInvalid => "OIDC_STATE_INVALID",
            Self::Denied => "OIDC_DENIED",
            Self::ProviderError => "OIDC_PROVIDER_ERROR",
            Self::Unreachable => "OIDC_UNREACHABLE",
            Self::ResponseInvalid => "OIDC_RESPONSE_INVALID",
            Self::CodeRefused => "OIDC_CODE_REFUSED",
            Self::TokenInvalid => "OIDC_TOKEN_INVALID",
            Self::Clock => "OIDC_CLOCK",
            Self::NoRole => "OIDC_NO_ROLE",
            Self::Busy => "OIDC_BUSY",
            Self::TooManyFailures => "TOO_MANY_FAILURES",
        }
    }

    /// What happened, and what to do.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::StateInvalid => (
                "the sign-in was not started in this browser, took longer than 10 minutes, or was replaced by another one",
                "sign in again, in one tab; the browser must accept cookies of this site",
            ),
            Self::Denied => (
                "the identity provider did not sign you in: access was denied",
                "sign in again, or ask the administrator of the identity provider for access",
            ),
            Self::ProviderError => (
                "the identity provider returned an error",
                "sign in again; if it fails again, an admin finds the error in the audit log",
            ),
            Self::Unreachable => (
                "the identity provider does not respond",
                "sign in again later, or with an access token",
            ),
            Self::ResponseInvalid => (
                "a response of the identity provider cannot be used",
                "an admin finds the reason in the audit log; check `oidc_issuer`",
            ),
            Self::CodeRefused => (
                "the identity provider did not exchange the code of the sign-in",
                "sign in again; if it fails again, check `oidc_client_id`, the client secret, `oidc_client_auth` and `public_url`",
            ),
            Self::TokenInvalid => (
                "the ID token of the identity provider is not valid",
                "sign in again; if it fails again, an admin finds the reason in the audit log",
            ),
            Self::Clock => (
                "the ID token is expired or not valid yet: the clocks of this server and the identity provider differ",
                "synchronize the clocks",
            ),
            Self::NoRole => (
                "you are signed in at the identity provider, but you have no role in NoETL",
                "ask an admin to add you to a group that `oidc_roles` maps to a role",
            ),
            Self::Busy => (
                "too many people are signing in at once",
                "sign in again in a few seconds",
            ),
            Self::TooManyFailures => (
                "too many sign-ins from this address have failed",
                "sign in again in a minute",
            ),
        }
    }

    /// The failure for the person.
    pub(crate) fn describe(self) -> SignInFailure {
        let (detail, remedy) = self.texts();
        SignInFailure {
            code: self.code().to_owned(),
            detail: detail.to_owned(),
            remedy: remedy.to_owned(),
        }
    }

    /// The failure with this code.
    pub(crate) fn find(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A sign-in failed. The reason contains no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct SignInError {
    /// The cause.
    pub(crate) kind: SignInFailureKind,
    /// What exactly was wrong, for admins.
    pub(crate) reason: String,
}

impl SignInError {
    pub(crate) fn new(kind: SignInFailureKind, reason: impl Into<String>) -> Self {
        Self {
            kind,
            reason: reason.into(),
        }
    }

    /// The ID token is not valid.
    pub(crate) fn invalid_token(reason: impl Into<String>) -> Self {
        Self::new(SignInFailureKind::TokenInvalid, reason)
    }

    /// A document of the provider cannot be used.
    pub(crate) fn invalid_response(reason: impl Into<String>) -> Self {
        Self::new(SignInFailureKind::ResponseInvalid, reason)
    }
}

/// A text of the provider for a reason, without anything that could mislead a reader.
pub(crate) fn short_text(text: &str) -> String {
    let text = text.chars().filter(char::is_ascii_graphic);
    text.take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_found_by_its_code() {
        for kind in SignInFailureKind::ALL {
            assert_eq!(SignInFailureKind::find(kind.code()), Some(kind));
            let text = kind.describe();
            assert!(!text.detail.is_empty() && !text.remedy.is_empty());
        }
        assert_eq!(SignInFailureKind::find("<b>OIDC</b>"), None);
    }

    #[test]
    fn a_text_of_the_provider_is_shortened() {
        assert_eq!(short_text("access\n denied"), "accessdenied");
        assert_eq!(short_text(&"x".repeat(500)).len(), TEXT_CHARS_MAX);
    }
}
