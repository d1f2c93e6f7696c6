//! The status of an execution: a pure function of its log, with the same names in API, CLI and docs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::EndStatus;

/// The status of an execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RunStatus {
    /// The run is active.
    Running,
    /// No new work is offered until the run is resumed.
    Paused,
    /// The run succeeded.
    Completed,
    /// The run failed with an error that no arc handled.
    Failed,
    /// The run was cancelled.
    Cancelled,
}

impl RunStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [
        Self::Running,
        Self::Paused,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The name that is stored and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Paused => "PAUSED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// Whether the run has ended; a retry makes it active again.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

impl From<EndStatus> for RunStatus {
    fn from(ending: EndStatus) -> Self {
        match ending {
            EndStatus::Success => Self::Completed,
            EndStatus::Error => Self::Failed,
            EndStatus::Cancelled => Self::Cancelled,
        }
    }
}

impl fmt::Display for RunStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not one of RUNNING, PAUSED, COMPLETED, FAILED, CANCELLED")]
pub struct UnknownStatusError(pub String);

impl FromStr for RunStatus {
    type Err = UnknownStatusError;
    fn from_str(text: &str) -> Result<Self, UnknownStatusError> {
        Self::ALL
            .into_iter()
            .find(|status| status.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownStatusError(text.to_owned()))
    }
}
