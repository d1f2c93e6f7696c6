//! The values that a store returns: rows of its tables.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use model::command::Command;
use model::event::{Event, EventStatus};
use model::id::{CommandId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;

/// A process that owns executions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub Arc<str>);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An execution as lists show it. All fields except name and owner are derived from its log.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionRow {
    /// The execution.
    pub id: ExecutionId,
    /// Its last sequence number.
    pub version: Seq,
    /// The status.
    pub status: RunStatus,
    /// Whether a stop was requested.
    pub cancelling: bool,
    /// The retry number, from 1.
    pub generation: u32,
    /// The playbook's name.
    pub name: Name,
    /// The playbook's path.
    pub path: Name,
    /// The playbook's catalog version.
    pub playbook_version: u32,
    /// The hash of the playbook's text.
    pub hash: PlaybookHash,
    /// The execution that started it.
    pub parent: Option<ExecutionId>,
    /// The process that owns it.
    pub owner: Option<OwnerId>,
    /// When it was requested.
    pub started_at: Time,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// The step scheduled last, while it is active.
    pub current: Option<Name>,
    /// Why it failed: code and message.
    pub error: Option<String>,
}

impl ExecutionRow {
    /// A checksum of the fields that change rarely: all except version, current step and owner.
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

/// The state as of a sequence number, opaque and versioned. It only speeds up loading and may be dropped at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The format of the bytes.
    pub version: u32,
    /// The last event that the state includes.
    pub seq: Seq,
    /// The state.
    pub bytes: Vec<u8>,
}

/// The data needed to continue an execution.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredExecution {
    /// Its row.
    pub row: ExecutionRow,
    /// The newest usable snapshot.
    pub snapshot: Option<Snapshot>,
    /// All events after the snapshot, or the whole log.
    pub tail: Vec<Event>,
}

/// A worker's request for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimQuery {
    /// The worker's session.
    pub worker: WorkerId,
    /// The pool it serves.
    pub pool: Name,
    /// Maximum number of commands.
    pub max: u32,
    /// Only commands of executions that this process owns.
    pub owner: Option<OwnerId>,
    /// The tool kinds it serves; `None` means all. It receives no command that needs another kind.
    pub kinds: Option<Vec<Name>>,
}

/// The holder of a worker's session, as a text that only the server interprets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionHolder(pub Arc<str>);

/// The session of a worker's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerSession {
    /// The holder; `None` for a session of an older server.
    pub holder: Option<SessionHolder>,
    /// Whether it has not expired, by the store's clock.
    pub is_alive: bool,
}

/// A claimed command.
#[derive(Debug, Clone, PartialEq)]
pub struct CommandClaim {
    /// The command.
    pub command: Command,
    /// The epoch that its reports must carry.
    pub lease_epoch: LeaseEpoch,
}

/// A claim whose worker is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostClaim {
    /// The command.
    pub command: CommandId,
    /// The worker that claimed it.
    pub worker: WorkerId,
    /// The claim.
    pub lease_epoch: LeaseEpoch,
}

/// A command that has not ended, for inspection.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCommand {
    /// The command.
    pub command: Command,
    /// The worker that has claimed it.
    pub worker: Option<WorkerId>,
    /// Number of claims so far.
    pub lease_epoch: LeaseEpoch,
    /// When it was offered.
    pub issued_at: Time,
}

/// A playbook as registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its path.
    pub path: Name,
    /// Version of the path's text, from 1.
    pub version: u32,
    /// The sha256 of the text.
    pub hash: PlaybookHash,
    /// The text.
    pub text: Arc<str>,
    /// When it was registered.
    pub registered_at: Time,
}

/// A version of a playbook, without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogVersion {
    /// Version of the path's text, from 1.
    pub version: u32,
    /// The sha256 of the text.
    pub hash: PlaybookHash,
    /// When it was registered.
    pub registered_at: Time,
}

impl CatalogEntry {
    /// The version that follows `latest`, the newest one of this path.
    pub(crate) fn new_version(latest: Option<&Self>, path: &str, text: &str, now: Time) -> Self {
        Self {
            path: path.into(),
            version: latest.map_or(1, |entry| entry.version + 1),
            hash: PlaybookHash::from_text(text),
            text: text.into(),
            registered_at: now,
        }
    }

    /// Whether the text matches its hash.
    pub(crate) fn matches_hash(&self) -> bool {
        PlaybookHash::from_text(&self.text) == self.hash
    }
}

/// The result of trying to adopt an execution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Adoption {
    /// The caller owns it.
    Owned,
    /// Another, live process owns it.
    OwnedBy(OwnerId),
    /// The execution does not exist.
    NotFound,
}

/// A body outside the log that a task or manifest refers to: projection `result_index`.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultRow {
    /// The event that records it.
    pub seq: Seq,
    /// The step run.
    pub run: StepRunId,
    /// The task.
    pub task: Option<Name>,
    /// The visit of the task.
    pub visit: u32,
    /// The loop index.
    pub iteration: Option<u64>,
    /// The page number.
    pub page: Option<i64>,
    /// The attempt.
    pub attempt: u32,
    /// The outcome of the task.
    pub status: EventStatus,
    /// The reference.
    pub result_ref: RawJson,
    /// When it was recorded.
    pub created_at: Time,
}

/// The progress of a loop run: projection `loop_progress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopProgress {
    /// The step run.
    pub run: StepRunId,
    /// Number of successful iterations.
    pub succeeded: u64,
    /// Number of failed iterations; a retry of the execution resets it.
    pub failed: u64,
    /// Number of task retries in iterations.
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

/// The outcomes of iterations to read at once.
#[derive(Debug, Clone)]
pub struct OutcomeRange {
    /// The iterations.
    pub iterations: Range<u64>,
    /// Events up to this one do not count.
    pub after: Seq,
    /// The last event that counts.
    pub until: Seq,
    /// Maximum size of the outcomes; if all are larger, only those of the first iterations are read.
    pub bytes_max: usize,
}

/// The outcomes of iterations that one read returns.
#[derive(Debug)]
pub struct IterationOutcomes {
    /// Each iteration that has an outcome, with the last event that records it.
    pub outcomes: BTreeMap<u64, Box<Event>>,
    /// The index of the next iteration to read.
    pub end: u64,
}

/// A task that waits for a signal: projection `pending_wait`.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingSignalWait {
    /// The execution.
    pub execution: ExecutionId,
    /// The event that began the wait.
    pub seq: Seq,
    /// The step run.
    pub run: StepRunId,
    /// The task.
    pub task: Option<Name>,
    /// The loop index.
    pub iteration: Option<u64>,
    /// The name of the signal.
    pub signal: Name,
    /// When the wait began.
    pub since: Time,
    /// When it fails if no signal arrives.
    pub deadline: Option<Time>,
    /// What a person decides, if the task waits for an approval.
    pub approval: Option<RawJson>,
}

/// A pending wait with the playbook of its execution.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitEntry {
    /// The wait.
    pub wait: PendingSignalWait,
    /// The playbook's path.
    pub path: Name,
    /// The playbook's catalog version.
    pub playbook_version: u32,
    /// Whether the next signal of its name ends it: no task of the execution has waited longer for the same name.
    pub is_next: bool,
}

/// The status of a step: projection `step_state`.
#[derive(Debug, Clone, PartialEq)]
pub struct StepState {
    /// The step.
    pub step: Name,
    /// Its latest run.
    pub run: u32,
    /// The status of that run.
    pub status: EventStatus,
    /// The latest body of its tasks.
    pub last_result_ref: Option<RawJson>,
    /// The manifest of its parts.
    pub aggregate_result_ref: Option<RawJson>,
    /// The event that changed the row last.
    pub seq: Seq,
}

/// The numbers of rows that a rebuild read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RebuildStats {
    /// Executions.
    pub executions: u64,
    /// Events.
    pub events: u64,
}

/// Age limits of rows to remove.
#[derive(Debug, Clone, Copy)]
pub struct OldRows {
    /// Sessions that expired before this time, of workers without claims.
    pub sessions_before: Time,
    /// Rows of client requests from before this time: `dedup` keys whose executions ended before it or never started,
    /// refusals of messages, ended batches, and consumed messages that no execution sent.
    pub requests_before: Time,
    /// Messages between executions that were consumed before this.
    pub messages_before: Time,
    /// Maximum number of rows of each kind per call.
    pub limit: u32,
}

/// The result of one removal of old rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemovedRows {
    /// Rows that were removed.
    pub removed: u64,
    /// `dedup` keys whose retention was postponed, because their executions ended later or have not ended.
    pub postponed: u64,
}
