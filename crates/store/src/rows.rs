//! What is read from a store: rows of its tables as values.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use model::command::Command;
use model::event::{Event, Status};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;

/// A process that drives executions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub Arc<str>);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An execution as lists show it; all but name and owner is a function of its log.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRow {
    /// The execution.
    pub id: ExecutionId,
    /// Its last seq.
    pub version: Seq,
    /// How it stands.
    pub status: RunStatus,
    /// Whether someone asked for its end.
    pub cancelling: bool,
    /// Which life of it this is.
    pub generation: u32,
    /// The playbook's name.
    pub name: Name,
    /// The playbook's path.
    pub path: Name,
    /// The playbook's catalog version.
    pub playbook_version: u32,
    /// The playbook's text.
    pub hash: PlaybookHash,
    /// The execution that started it.
    pub parent: Option<ExecutionId>,
    /// The process that drives it.
    pub owner: Option<OwnerId>,
    /// When it was asked for.
    pub started_at: Time,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The step scheduled last, while it goes on.
    pub current: Option<Name>,
    /// Why it failed: code and message.
    pub error: Option<String>,
}

impl ExecutionRow {
    /// A checksum of what changes only when the execution takes a turn: all but its version, its step and its driver.
    pub(crate) fn checksum(&self) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        let texts = [
            self.status.name(),
            self.name.as_str(),
            self.path.as_str(),
            &self.hash.0,
            self.error.as_deref().unwrap_or_default(),
        ];
        for text in texts {
            crc.update(text.as_bytes());
            crc.update(&[0xFF]);
        }
        let numbers = [
            self.id.0,
            self.parent.map_or(0, |parent| parent.0),
            self.started_at.0,
            self.finished_at.map_or(0, |time| time.0),
            i64::from(self.generation),
            i64::from(self.playbook_version),
            i64::from(self.cancelling) + 2 * i64::from(self.error.is_some()),
        ];
        for number in numbers {
            crc.update(&number.to_le_bytes());
        }
        crc.finalize()
    }
}

/// Which executions a list shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    /// Those that stand so.
    pub status: Option<RunStatus>,
    /// Those of this playbook.
    pub path: Option<Name>,
    /// Those started at or after.
    pub since: Option<Time>,
    /// Those started before.
    pub until: Option<Time>,
    /// Those this execution started.
    pub parent: Option<ExecutionId>,
    /// Those older than this one: the next page.
    pub before: Option<ExecutionId>,
    /// At most so many.
    pub limit: usize,
}

impl Default for Filter {
    fn default() -> Self {
        Self {
            status: None,
            path: None,
            since: None,
            until: None,
            parent: None,
            before: None,
            limit: 50,
        }
    }
}

/// State as of a seq, opaque and versioned; a shortcut that may be dropped at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The form of the bytes.
    pub version: u32,
    /// The last event folded in.
    pub seq: Seq,
    /// The state.
    pub bytes: Vec<u8>,
}

/// What is needed to go on with an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Its row.
    pub row: ExecutionRow,
    /// The newest usable snapshot.
    pub snapshot: Option<Snapshot>,
    /// Every event after the snapshot, or the whole log.
    pub tail: Vec<Event>,
}

/// A worker asks for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The worker's session.
    pub worker: WorkerId,
    /// The pool it serves.
    pub pool: Name,
    /// At most so many commands.
    pub max: u32,
    /// Only commands of executions that this process drives.
    pub owner: Option<OwnerId>,
    /// The tool kinds it serves: a command that needs another is not for it. None serves any.
    pub kinds: Option<Vec<Name>>,
}

impl Ask {
    /// Whether this worker serves every kind that a command needs.
    pub(crate) fn serves(&self, needed: &[Name]) -> bool {
        let served = self.kinds.as_deref();
        served.is_none_or(|served| needed.iter().all(|kind| served.contains(kind)))
    }
}

/// Who a worker's session belongs to, as a text that only the server reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder(pub Arc<str>);

/// The session under a worker's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSession {
    /// Who it belongs to; none for a session of an older server.
    pub holder: Option<SessionHolder>,
    /// Whether it has not expired, by the store's clock.
    pub is_alive: bool,
}

/// A command handed out.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The command.
    pub command: Command,
    /// What its reports must carry.
    pub lease_epoch: LeaseEpoch,
}

/// A claim whose holder is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostClaim {
    /// The command.
    pub command: CommandId,
    /// The holder.
    pub worker: WorkerId,
    /// The claim.
    pub lease_epoch: LeaseEpoch,
}

/// A command that is not over, as a person may want to see it.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCommand {
    /// The command.
    pub command: Command,
    /// Who holds it.
    pub worker: Option<WorkerId>,
    /// How often it was handed out.
    pub lease_epoch: LeaseEpoch,
    /// When it was offered.
    pub issued_at: Time,
}

/// A playbook as registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its path.
    pub path: Name,
    /// Counts the path's texts from 1.
    pub version: u32,
    /// The sha256 of the text.
    pub hash: PlaybookHash,
    /// The text.
    pub text: Arc<str>,
    /// When it was registered.
    pub registered_at: Time,
}

impl CatalogEntry {
    /// Whether the text is the one that its hash was made of.
    pub(crate) fn is_whole(&self) -> bool {
        PlaybookHash::of(&self.text) == self.hash
    }
}

/// Whether an execution may be driven now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adoption {
    /// The asker drives it.
    Mine,
    /// Another process does, and lives.
    HeldBy(OwnerId),
    /// There is no such execution.
    Unknown,
}

/// A body outside the log that a task or manifest left: projection `result_index`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultRow {
    /// The event that tells of it.
    pub seq: Seq,
    /// The step run.
    pub run: StepRunId,
    /// The task.
    pub task: Option<Name>,
    /// The entry of the task.
    pub visit: u32,
    /// The loop index.
    pub iteration: Option<u64>,
    /// The page.
    pub page: Option<i64>,
    /// The attempt.
    pub attempt: u32,
    /// How the task ended.
    pub status: Status,
    /// The reference.
    pub result_ref: Raw,
    /// When it was recorded.
    pub created_at: Time,
}

/// How far a run of a loop has come: projection `loop_progress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopProgress {
    /// The step run.
    pub run: StepRunId,
    /// How many iterations ended well.
    pub succeeded: u64,
    /// How many failed; a retry of the run counts anew.
    pub failed: u64,
    /// How often tasks in iterations were retried.
    pub retries: u64,
}

/// The latest ends of a task in the iterations of one run of a loop: projection `loop_task`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopTask {
    /// The run of the step.
    pub run: u32,
    /// The last event that records a result of the task: its success, or the manifest of its pages.
    pub succeeded: Option<Seq>,
    /// The last event that records a failure of the task.
    pub failed: Option<Seq>,
}

/// Which outcomes of iterations are read at once.
#[derive(Debug, Clone)]
pub struct OutcomeRange {
    /// The iterations.
    pub iterations: Range<u64>,
    /// Events up to this one do not count.
    pub after: Seq,
    /// The last event that counts.
    pub until: Seq,
    /// If the outcomes of all iterations are larger, only those of the first ones are read.
    pub bytes_max: usize,
}

/// What iterations came to, as far as one reading goes.
#[derive(Debug)]
pub struct IterationOutcomes {
    /// Each iteration that has an outcome, with the last event that records it.
    pub outcomes: BTreeMap<u64, Box<Event>>,
    /// Where the next reading begins.
    pub end: u64,
}

/// How a step stands: projection `step_state`.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// The step.
    pub step: Name,
    /// Its latest run.
    pub run: u32,
    /// How that run stands.
    pub status: Status,
    /// The latest body of its tasks.
    pub last_result_ref: Option<Raw>,
    /// The manifest of its parts.
    pub aggregate_result_ref: Option<Raw>,
    /// The event that changed this last.
    pub seq: Seq,
}

/// What rebuilding read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Executions.
    pub executions: u64,
    /// Events.
    pub events: u64,
}

/// Which rows are old enough to be removed.
#[derive(Debug, Clone, Copy)]
pub struct OldRows {
    /// Sessions that ended before this, of workers that hold nothing.
    pub sessions_before: Time,
    /// What requests from outside left behind before this: `dedup` words whose executions ended before this or never
    /// began, answers to refused messages, ended batches, and consumed messages that no execution sent.
    pub requests_before: Time,
    /// Messages between executions that were consumed before this.
    pub messages_before: Time,
    /// At most so many of each sort at a time.
    pub limit: u32,
}

/// What one removal of old rows did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedRows {
    /// Rows that were removed.
    pub removed: u64,
    /// `dedup` words whose retention starts later than was known, because their executions ended later or have not ended.
    pub postponed: u64,
}
