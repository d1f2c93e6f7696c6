//! Control requests that the log records: end a run, or continue it with another version of its playbook.

use serde::{Deserialize, Serialize};

use crate::event::EndStatus;
use crate::id::{Name, PlaybookHash};

/// A user or a parent run requested the end of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopRequest {
    /// The reason given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the child runs it waits for are cancelled too.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub cascade: bool,
    /// The status to end with; `None` means cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<EndStatus>,
}

fn yes() -> bool {
    true
}

impl Default for StopRequest {
    fn default() -> Self {
        Self {
            reason: None,
            cascade: true,
            ending: None,
        }
    }
}

/// The run continues with another version of its playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlaybookSwitched {
    /// The catalog version.
    pub version: u32,
    /// The hash of the new text.
    pub hash: PlaybookHash,
    /// The unchanged tasks of each active step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<UnchangedTasks>,
    /// Active steps that restart, because they have a loop in only one of the two versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<Name>,
}

/// The first tasks of a step, as far as both versions have the same labels and kinds. A pipeline past them restarts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnchangedTasks {
    /// The step.
    pub step: Name,
    /// Their labels, in order.
    pub labels: Vec<Name>,
}
