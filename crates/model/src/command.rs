//! Commands: the work that the server assigns to workers, and the state of a pipeline.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId};
use crate::raw::RawJson;
use crate::time::Time;

/// Work offered to workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Derived from the event that issued it.
    pub id: CommandId,
    /// The playbook text to run.
    pub playbook: PlaybookHash,
    /// The step run it belongs to.
    pub run: StepRunId,
    /// The part of the step run to do.
    pub work: CommandWork,
    /// Counts the offers of the same work from 1.
    pub dispatch: u32,
    /// The pool whose workers may claim it.
    pub pool: Name,
    /// The token's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<RawJson>,
    /// The `loop.started` event with the items; set for loop work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_started: Option<Seq>,
}

/// A worker's claim on a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ClaimId {
    /// The command.
    pub command: CommandId,
    /// The lease epoch of the claim.
    pub lease_epoch: LeaseEpoch,
}

/// A claim inside one execution. What depends on it is valid only while the claim is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The `command.issued` event.
    pub command: Seq,
    /// The lease epoch of the claim.
    pub lease_epoch: LeaseEpoch,
}

impl Fence {
    /// The claim, named together with its execution.
    pub fn claim_in(self, execution: ExecutionId) -> ClaimId {
        let seq = self.command;
        ClaimId {
            command: CommandId { execution, seq },
            lease_epoch: self.lease_epoch,
        }
    }
}

/// Whether a worker serves every tool kind that a command needs. A worker with `None` serves all kinds.
pub fn serves_kinds(served: Option<&[Name]>, needed: &[Name]) -> bool {
    served.is_none_or(|served| needed.iter().all(|kind| served.contains(kind)))
}

/// The part of a step run that a command covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandWork {
    /// The whole pipeline of a plain step.
    Pipeline,
    /// The loop's iterations `from..to`, at most `width` at once.
    Range {
        /// The first index.
        from: u64,
        /// One past the last index.
        to: u64,
        /// The maximum number at once.
        width: u32,
    },
    /// One suspended iteration that resumes.
    Iteration {
        /// Its index.
        index: u64,
    },
    /// Renders the loop's collection on a worker that can read its inputs, and stores it.
    Prepare,
}

/// The state of a pipeline, folded from its task events. Holds pointers into the log, never values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Continuation {
    /// The task that runs now or next.
    #[serde(default)]
    pub cursor: PipelineCursor,
    /// The number of times each label was entered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub visits: BTreeMap<Name, u32>,
    /// The current attempt of the current visit; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// The attempt of the current visit whose outcome left the effect unknown, if the last outcome did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u32>,
    /// The latest outcome of each label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<Name, OutcomePointer>,
    /// The parts of each label that succeeded more than once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<Name, LabelParts>,
    /// The label that finished last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Name>,
    /// The events that wrote to `iter`, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub iter_writes: Vec<Seq>,
    /// The events that wrote pipeline locals, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub local_writes: Vec<Seq>,
    /// The events that wrote `ctx` and are not yet in the execution's ctx (parallel loops), oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ctx_writes: Vec<Seq>,
    /// The number of jumps so far.
    #[serde(default)]
    pub jumps: u32,
    /// What the pipeline does now.
    #[serde(default)]
    pub stage: PipelineStage,
}

/// A position in a pipeline, by label, so that the fold does not need the playbook.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineCursor {
    /// Before the first task.
    #[default]
    Start,
    /// At this task.
    At(Name),
    /// After this task.
    After(Name),
}

/// Location of a task's outcome in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomePointer {
    /// The `task.done` or `task.failed` event.
    pub seq: Seq,
    /// Whether the task succeeded.
    pub ok: bool,
    /// The size of its JSON text in the log.
    pub bytes: u32,
    /// The page number; `None` means the visit number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// The size of its body, if the body is stored outside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<u64>,
}

/// The parts of one label: its successful visits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelParts {
    /// The event of each page, in page order; a repeated page replaces the earlier one.
    pub by_page: Vec<(i64, Seq)>,
    /// The total size of their bodies.
    pub bytes: u64,
    /// Whether any of the bodies is stored outside the log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outside: bool,
}

impl LabelParts {
    /// Adds a part.
    pub fn add(&mut self, pointer: &OutcomePointer) {
        let part = (pointer.page.unwrap_or(1), pointer.seq);
        match self.by_page.binary_search_by_key(&part.0, |(page, _)| *page) {
            Ok(index) => self.by_page[index] = part,
            Err(index) => self.by_page.insert(index, part),
        }
        self.bytes += pointer.outside.unwrap_or(u64::from(pointer.bytes));
        self.is_outside |= pointer.outside.is_some();
    }
}

impl Continuation {
    /// Returns the successful visits of a label, also if there is only one.
    pub fn parts_of(&self, label: &Name) -> Option<LabelParts> {
        if let Some(parts) = self.parts.get(label) {
            return Some(parts.clone());
        }
        let only = self.outcomes.get(label).filter(|pointer| pointer.ok)?;
        let mut parts = LabelParts::default();
        parts.add(only);
        Some(parts)
    }
}

/// What a pipeline does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipelineStage {
    /// The task at the cursor has not started.
    #[default]
    Ready,
    /// The task started and has no recorded outcome.
    Started,
    /// An attempt failed; the next one may start at `due`.
    Retrying {
        /// The earliest time of the next attempt.
        due: Time,
        /// Whether the worker's slot was freed for the delay.
        suspended: bool,
    },
    /// The task waits for a child run, a time or a signal.
    Awaiting {
        /// The `task.started` event that records what it waits for.
        since: Seq,
    },
    /// The task's wait has ended.
    #[serde(rename = "answered")]
    WaitEnded {
        /// The event that ended the wait.
        by: Seq,
        /// The `task.started` event that records what it waited for.
        since: Seq,
    },
    /// The last task finished, or a rule ended the pipeline with success.
    Done,
    /// A rule ended the pipeline with a failure.
    Failed,
}

/// A change to the active timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerChange {
    /// Start a timer.
    Set {
        /// The `timer.set` event.
        seq: Seq,
        /// When the timer fires.
        due: Time,
    },
    /// Remove a timer.
    Clear {
        /// The `timer.set` event.
        seq: Seq,
    },
}

/// Whether a report ends the worker's claim on a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportEnd {
    /// The worker continues with the command.
    #[default]
    Open,
    /// All work of the command has finished or is suspended.
    Finished,
    /// The worker releases the unfinished work: pause, drain, or no new work may start.
    Released,
    /// The worker stopped the command as instructed.
    Stopped,
}
