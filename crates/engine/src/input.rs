//! Inputs: everything that can change an execution. Time and new IDs enter here, never inside a decision.

use std::sync::Arc;

use language::playbook::Playbook;
use language::template::LazyValue;
use model::command::ReportEnd;
use model::event::{EventBody, ParentTask, ReportedEvent, StopRequest};
use model::id::{ExecutionId, IdBlock, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::labels::Labels;
use model::outcome::Outcome;
use model::raw::RawJson;
use model::time::Time;
use serde::{Deserialize, Serialize};

use crate::reuse::ReusePlan;

/// The arrival time of an input, and the IDs that its events may use.
#[derive(Debug, Clone, Copy)]
pub struct Stamp {
    /// The time of the store's clock.
    pub now: Time,
    /// New IDs.
    pub ids: IdBlock,
}

/// An input that changes an execution.
#[derive(Debug, Clone)]
pub enum Input {
    /// A request for a new execution.
    Submit(Box<ExecutionRequest>),
    /// A worker reports on a command.
    Report(CommandReport),
    /// A timer is due.
    TimerDue(Seq),
    /// A signal arrived.
    Signal {
        /// Its name.
        name: Name,
        /// The payload.
        payload: Option<RawJson>,
    },
    /// A child execution ended.
    ChildEnded {
        /// The child.
        child: ExecutionId,
        /// The parent's `task.started` event that waits for it.
        seq: Seq,
        /// Its outcome.
        outcome: Box<Outcome>,
    },
    /// Stops the execution; the default ending is `Cancelled`.
    Cancel(StopRequest),
    /// Issues no more commands until resumed.
    Pause {
        /// The reason.
        reason: Option<String>,
    },
    /// Resumes after a pause.
    Resume,
    /// Retries failed work, in a new generation.
    Retry {
        /// The version to continue with, which `PlaybookNet` already contains; `None` means the current version.
        switch: Option<Box<PlaybookSwitch>>,
    },
    /// Patches `ctx` from outside.
    Patch(RawJson),
    /// The worker that claimed a command is lost.
    ClaimLost {
        /// The command.
        command: Seq,
        /// The worker that claimed it.
        worker: WorkerId,
        /// The claim that ended.
        lease_epoch: LeaseEpoch,
        /// Whether the loss counts as a strike against the command.
        is_strike: bool,
    },
    /// An event of the server that changes nothing else.
    RecordEvent(Box<EventBody>),
    /// Continues a decision that stopped early.
    Continue,
    /// No worker claimed a command in time.
    CommandOverdue(Seq),
}

/// A control request of a client or of a parent execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlRequest {
    /// Stops the execution.
    Cancel(StopRequest),
    /// Issues no more commands until resumed.
    Pause {
        /// The reason, recorded in the log.
        reason: Option<String>,
    },
    /// Resumes after a pause.
    Resume,
    /// Retries failed work.
    Retry {
        /// Version of the playbook to continue with; `None` means the current one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
    },
    /// Patches `ctx`.
    Patch {
        /// The written keys, with values or reducers.
        patch: RawJson,
    },
    /// Delivers a signal.
    Signal {
        /// Its name.
        name: Name,
        /// The payload.
        payload: Option<RawJson>,
    },
}

impl From<ControlRequest> for Input {
    /// A retry continues with the current version: the caller looks up another one and adds the switch.
    fn from(request: ControlRequest) -> Self {
        match request {
            ControlRequest::Cancel(request) => Self::Cancel(request),
            ControlRequest::Pause { reason } => Self::Pause { reason },
            ControlRequest::Resume => Self::Resume,
            ControlRequest::Retry { .. } => Self::Retry { switch: None },
            ControlRequest::Patch { patch } => Self::Patch(patch),
            ControlRequest::Signal { name, payload } => Self::Signal { name, payload },
        }
    }
}

/// A switch of an execution to another version of its playbook.
#[derive(Debug, Clone)]
pub struct PlaybookSwitch {
    /// The new catalog version.
    pub version: u32,
    /// The hash of the new version.
    pub hash: PlaybookHash,
    /// The playbook that the execution has used so far.
    pub previous: Arc<Playbook>,
}

/// A request to start an execution.
#[derive(Debug, Clone)]
pub struct ExecutionRequest {
    /// Its id.
    pub execution: ExecutionId,
    /// The playbook's path.
    pub path: Name,
    /// Its catalog version.
    pub version: u32,
    /// The hash of its text.
    pub hash: PlaybookHash,
    /// The request's payload, merged over the playbook's workload.
    pub payload: Option<RawJson>,
    /// The parent, if another execution started it.
    pub parent: Option<ParentTask>,
    /// Nesting depth of sub-playbooks.
    pub depth: u32,
    /// The trace it belongs to; `None` derives one from the execution's ID.
    pub trace_id: Option<Name>,
    /// The labels of the playbook, with those of the request over them.
    pub labels: Labels,
    /// The results it reuses if it is a rerun.
    pub reuse: Option<Box<ReusePlan>>,
    /// Variables that defaults may read as `env`; `None` on a server.
    pub env: Option<LazyValue>,
}

/// A worker's report about a command it has claimed.
#[derive(Debug, Clone)]
pub struct CommandReport {
    /// The `command.issued` event.
    pub command: Seq,
    /// The reporting worker.
    pub worker: WorkerId,
    /// The claim that the report belongs to.
    pub lease_epoch: LeaseEpoch,
    /// The events, in order.
    pub events: Vec<ReportedEvent>,
    /// Whether the worker has finished with the command.
    pub end: ReportEnd,
}
