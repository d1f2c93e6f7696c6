//! One look at one thing.

use serde::Serialize;

use crate::problem::{Exit, without_userinfo};

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// As it should.
    Ok,
    /// Something needs it, most playbooks do not.
    Warn,
    /// What is configured cannot work.
    Fail,
}

/// What a look at one thing came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The thing.
    pub(crate) name: &'static str,
    /// How it stands.
    pub(crate) state: State,
    /// What was found.
    pub(crate) detail: String,
    /// What to do, unless it is as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<&'static str>,
    /// How the process ends if this fails.
    #[serde(skip)]
    pub(crate) exit: Exit,
}

impl Check {
    /// Something that is as it should be.
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            detail: without_userinfo(detail.into()),
            remedy: None,
            exit: Exit::NotAllowed,
        }
    }

    /// Something that is missing and may be needed.
    pub(crate) fn warn(
        name: &'static str,
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self {
            state: State::Warn,
            remedy: Some(remedy),
            ..Self::ok(name, detail)
        }
    }

    /// Something that cannot work.
    pub(crate) fn fail(
        name: &'static str,
        detail: impl Into<String>,
        remedy: &'static str,
    ) -> Self {
        Self {
            state: State::Fail,
            ..Self::warn(name, detail, remedy)
        }
    }

    /// The same, for something that must be reached.
    pub(crate) fn unreachable(self) -> Self {
        Self {
            exit: Exit::Unreachable,
            ..self
        }
    }
}
