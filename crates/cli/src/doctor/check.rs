//! A single check of `noetl doctor`.

use serde::Serialize;

use crate::cli_error::{Exit, without_userinfo};

/// Status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CheckStatus {
    /// No problem.
    Ok,
    /// A problem for some playbooks only.
    Warn,
    /// The configuration cannot work.
    Fail,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// Name of the check.
    pub(crate) name: &'static str,
    /// Status.
    pub(crate) state: CheckStatus,
    /// What was found.
    pub(crate) detail: String,
    /// What to do, if there is a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<&'static str>,
    /// Exit code if this check fails.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

impl Check {
    /// Creates the result of a check without a problem.
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            state: CheckStatus::Ok,
            detail: without_userinfo(detail.into()),
            remedy: None,
            exit: Exit::NotAllowed,
        }
    }

    /// Creates a warning.
    pub(crate) fn warn(name: &'static str, detail: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            state: CheckStatus::Warn,
            remedy: Some(remedy),
            ..Self::ok(name, detail)
        }
    }

    /// Creates a failure.
    pub(crate) fn fail(name: &'static str, detail: impl Into<String>, remedy: &'static str) -> Self {
        Self {
            state: CheckStatus::Fail,
            ..Self::warn(name, detail, remedy)
        }
    }

    /// Sets the exit code for an unreachable store or server.
    pub(crate) fn with_unreachable_exit(self) -> Self {
        Self {
            exit: Exit::Unreachable,
            ..self
        }
    }
}
