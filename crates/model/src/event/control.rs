//! What people ask of a run and the log keeps: that it ends, or goes on with another text of its playbook.

use serde::{Deserialize, Serialize};

use crate::event::Ending;
use crate::id::{Name, PlaybookHash};

/// Someone, or a parent, wants the run to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StopRequested {
    /// Their words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the runs it waits for end too.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub cascade: bool,
    /// How it is to end; cancelled if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

fn yes() -> bool {
    true
}

impl Default for StopRequested {
    fn default() -> Self {
        Self {
            reason: None,
            cascade: true,
            ending: None,
        }
    }
}

/// The run goes on with another text of its playbook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Switched {
    /// The catalog version.
    pub version: u32,
    /// The new text.
    pub hash: PlaybookHash,
    /// What is unchanged of each step that is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptTasks>,
    /// Steps under way that begin anew: a loop where there was none, or none where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarted: Vec<Name>,
}

/// The first tasks of a step whose labels and kinds both texts agree on. A pipeline beyond them begins anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTasks {
    /// The step.
    pub step: Name,
    /// Their labels, in order.
    pub labels: Vec<Name>,
}
