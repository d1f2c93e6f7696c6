//! One commit: the events of one decision, and all changes that are written atomically with them.

use std::collections::BTreeMap;

use model::command::{Command, Fence, TimerChange};
use model::event::{Event, EventBody, UniqueKey};
use model::id::{EventId, ExecutionId, LeaseEpoch, Name, Seq, WorkerId};
use model::raw::RawJson;
use model::time::Time;

use crate::error::Error;
use crate::rows::{OwnerId, Snapshot};

/// The changes of one execution, written atomically.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The execution.
    pub execution: ExecutionId,
    /// The last sequence number that the decision is based on; 0 creates the execution.
    pub expected: Seq,
    /// The events; their sequence numbers follow `expected` without a gap. May be empty.
    pub events: Vec<Event>,
    /// Values of the creating commit. All other values of the row are derived from the events.
    pub creation: ExecutionCreation,
    /// Commands to issue, assign and close.
    pub commands: Vec<CommandChange>,
    /// Timers to set and to clear.
    pub timers: Vec<TimerChange>,
    /// Messages to other executions.
    pub messages: Vec<Message>,
    /// Messages that these events process.
    pub consumed: Vec<MessageKey>,
    /// Keys that may be in the log only once.
    pub keys: Vec<UniqueKey>,
    /// Events whose IDs came from a client.
    pub external_events: Vec<ExternalEventKey>,
    /// The claims that the commit depends on; all must be current.
    pub fences: Vec<Fence>,
    /// The state after these events, in some commits.
    pub snapshot: Option<Snapshot>,
    /// Whether it may use the disk space reserved for control requests.
    pub priority: Priority,
}

/// The disk space that a write may use when the disk is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// None: the write is refused.
    #[default]
    Normal,
    /// The reserve, if the store has one: the write cancels or pauses an execution, or ends a cancelled one.
    Control,
}

/// Values of a new execution that its events do not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecutionCreation {
    /// The playbook's name; `None` means its path.
    pub name: Option<Name>,
    /// The process that owns the execution.
    pub owner: Option<OwnerId>,
}

/// A change to the commands of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandChange {
    /// Issues a command, and optionally assigns it to a worker in the same commit.
    Issue(Box<IssuedCommand>),
    /// Assigns an offered command to a worker. If the command is no longer offered, nothing of the commit is written.
    Assign {
        /// The event that issued it.
        seq: Seq,
        /// The worker.
        worker: WorkerId,
        /// The claim.
        lease_epoch: LeaseEpoch,
    },
    /// Closes the command, whether or not a worker has claimed it.
    Close {
        /// The event that issued it.
        seq: Seq,
    },
}

/// A command to issue.
#[derive(Debug, Clone, PartialEq)]
pub struct IssuedCommand {
    /// The command.
    pub command: Command,
    /// The worker that has claimed it from the start. A worker without a live session loses it immediately.
    pub claimed: Option<(WorkerId, LeaseEpoch)>,
    /// The time at which it is overdue if no worker has claimed it.
    pub start_by: Option<Time>,
    /// The tool kinds that its worker must serve; empty means any worker.
    pub kinds: Vec<Name>,
}

/// A message to an execution, from another execution or from a user.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The key that identifies repeated sends of the message.
    pub key: MessageKey,
    /// The receiver; possibly an execution that this message starts.
    pub to: ExecutionId,
    /// The content, as the server encodes it.
    pub body: RawJson,
}

/// The identity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// The sender; a new ID for messages that no execution sends.
    pub from: ExecutionId,
    /// The event that sends it; 0 if no execution sends it.
    pub seq: Seq,
    /// The number of the message within that event.
    pub n: u32,
}

/// An event whose ID came from a client. It is looked up by ID and compared by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalEventKey {
    /// The given ID.
    pub event_id: EventId,
    /// Its sequence number in the log.
    pub seq: Seq,
    /// The sha256 of its canonical content.
    pub hash: [u8; 32],
}

/// The result of a well-formed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStatus {
    /// The commit is durable.
    Committed,
    /// The log has new events; nothing was written. Load and decide again.
    VersionConflict {
        /// The last sequence number of the log; 0 if the execution does not exist.
        version: Seq,
    },
    /// The claim is not current; nothing was written.
    Fenced,
}

impl Commit {
    /// Creates a commit with only events.
    pub fn new(execution: ExecutionId, expected: Seq, events: Vec<Event>) -> Self {
        Self {
            execution,
            expected,
            events,
            creation: ExecutionCreation::default(),
            commands: Vec::new(),
            timers: Vec::new(),
            messages: Vec::new(),
            consumed: Vec::new(),
            keys: Vec::new(),
            external_events: Vec::new(),
            fences: Vec::new(),
            snapshot: None,
            priority: Priority::Normal,
        }
    }

    /// The last sequence number after this commit.
    pub fn version(&self) -> Seq {
        Seq(self.expected.0 + self.events.len() as u64)
    }

    /// Checks what every store relies on: gapless sequence numbers, causes before their effects, and one root event.
    pub fn check(&self) -> Result<(), Error> {
        let mut last = self.expected;
        for event in &self.events {
            if event.execution_id != self.execution {
                return Err(Error::Malformed("an event belongs to another execution"));
            }
            if event.seq != last.next() {
                return Err(Error::Malformed("sequence numbers do not follow the expected version"));
            }
            let is_root = event.seq == Seq(1);
            if is_root != matches!(event.body, EventBody::ExecutionRequested(_)) {
                return Err(Error::Malformed(
                    "a log must start with one `execution.requested` event",
                ));
            }
            match event.cause_seq {
                Some(cause) if cause >= event.seq || cause == Seq(0) => {
                    return Err(Error::Malformed("the cause of an event is not before the event"));
                }
                None if !is_root => return Err(Error::Malformed("an event has no cause")),
                _ => {}
            }
            last = event.seq;
        }
        if self.version() == Seq(0) {
            return Err(Error::Malformed("a new execution has no events"));
        }
        Ok(())
    }

    /// Refuses a command for work that another open command covers. `units` has the work of the open commands; the
    /// changes are checked in the order in which the store applies them.
    pub(crate) fn check_work_units(&self, mut units: BTreeMap<Seq, String>) -> Result<(), Error> {
        for change in &self.commands {
            match change {
                CommandChange::Assign { .. } => {}
                CommandChange::Close { seq } => {
                    units.remove(seq);
                }
                CommandChange::Issue(issue) => {
                    let unit = issue.work_unit();
                    if units.values().any(|other| *other == unit) {
                        return Err(Error::Invariant(UniqueKey::Work(issue.command.id)));
                    }
                    units.insert(issue.command.id.seq, unit);
                }
            }
        }
        Ok(())
    }

    /// All unique keys of this commit, explicit and implied.
    pub(crate) fn claimed_keys(&self) -> impl Iterator<Item = (UniqueKey, Option<&ExternalEventKey>)> {
        let added_keys = self.keys.iter().map(|key| (key.clone(), None));
        let foreign = self
            .external_events
            .iter()
            .map(|event| (UniqueKey::Event(event.event_id), Some(event)));
        added_keys.chain(foreign)
    }
}

impl IssuedCommand {
    /// The identity of the work, which no two live commands of an execution share: step run, part and dispatch.
    pub(crate) fn work_unit(&self) -> String {
        use model::command::CommandWork;
        let Command {
            run, work, dispatch, ..
        } = &self.command;
        match work {
            CommandWork::Pipeline => format!("{run}:{dispatch}"),
            CommandWork::Range { from, to, .. } => format!("{run}:{from}-{to}:{dispatch}"),
            CommandWork::Iteration { index } => format!("{run}:{index}:{dispatch}"),
            CommandWork::Prepare => format!("{run}:prepare:{dispatch}"),
        }
    }
}
