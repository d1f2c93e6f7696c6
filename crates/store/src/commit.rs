//! One commit: the events of one decision and everything that must become true together with them.

use std::fmt;

use model::command::{Command, TimerChange};
use model::event::{Body, Event};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, Seq, StepRunId, WorkerId};
use model::raw::Raw;
use model::time::Time;

use crate::error::Error;
use crate::rows::{OwnerId, Snapshot};

/// What one execution wants written, all or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The execution.
    pub execution: ExecutionId,
    /// The last seq the decision was made from; 0 creates the execution.
    pub expected: Seq,
    /// What happened; their seqs follow `expected` without a gap. May be empty.
    pub events: Vec<Event>,
    /// What only the creating commit knows. The rest of the row is a function of the events.
    pub creation: Creation,
    /// Work offered and withdrawn.
    pub commands: Vec<CommandChange>,
    /// Timers started and stopped.
    pub timers: Vec<TimerChange>,
    /// Messages to other executions.
    pub messages: Vec<Message>,
    /// Messages that these events answer.
    pub consumed: Vec<MessageKey>,
    /// What may be in the log only once.
    pub keys: Vec<Key>,
    /// Events whose ids came from outside.
    pub foreign: Vec<Foreign>,
    /// The claims that entitle to this commit; all must be current.
    pub fences: Vec<Fence>,
    /// The state after these events, now and then.
    pub snapshot: Option<Snapshot>,
    /// Whether it may use the space that is reserved for control requests.
    pub priority: Priority,
}

/// What a write may use when the disk is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Priority {
    /// Nothing: it is refused.
    #[default]
    Normal,
    /// The reserve of a store that has one: the write cancels or pauses a run, or ends one that was cancelled.
    Control,
}

/// What the events of a new execution do not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Creation {
    /// The playbook's name; its path if none.
    pub name: Option<Name>,
    /// The process that drives it.
    pub owner: Option<OwnerId>,
}

/// A change to the commands of an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandChange {
    /// Work is offered, or handed over in the same breath.
    Issue(Box<Issue>),
    /// A command on offer goes to a worker; if it is on offer no more, nothing of the commit is written.
    Hand {
        /// The event that issued it.
        seq: Seq,
        /// Who gets it.
        worker: WorkerId,
        /// The claim.
        lease_epoch: LeaseEpoch,
    },
    /// The command is over, whoever holds it.
    Close {
        /// The event that issued it.
        seq: Seq,
    },
}

/// A command to offer.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    /// The command.
    pub command: Command,
    /// Who holds it from the start. A holder without a live session loses it at once.
    pub claimed: Option<(WorkerId, LeaseEpoch)>,
    /// When it counts as overdue if nobody took it.
    pub start_by: Option<Time>,
    /// The tool kinds its worker must serve; any worker will do if none is named.
    pub kinds: Vec<Name>,
}

/// Something one execution, or a person, tells another.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// What makes it the same message when it is sent again.
    pub key: MessageKey,
    /// Who gets it; possibly an execution that this message starts.
    pub to: ExecutionId,
    /// What it says, in the server's own words.
    pub body: Raw,
}

/// The identity of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageKey {
    /// The sender; a fresh id for messages that no execution sends.
    pub from: ExecutionId,
    /// The event that sends it; 0 outside an execution.
    pub seq: Seq,
    /// Which message of that event.
    pub n: u32,
}

/// What may be in a log only once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The end of a generation.
    Terminal {
        /// Which.
        generation: u32,
    },
    /// The end of a step run.
    Boundary {
        /// Which run.
        run: StepRunId,
        /// In which generation.
        generation: u32,
    },
    /// An event whose id came from outside.
    Event(EventId),
    /// The same work offered by two commands.
    Work(CommandId),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terminal { generation } => write!(f, "terminal:{generation}"),
            Self::Boundary { run, generation } => write!(f, "boundary:{generation}:{run}"),
            Self::Event(id) => write!(f, "event:{id}"),
            Self::Work(id) => write!(f, "work:{id}"),
        }
    }
}

/// An event whose id came from outside: found again by id, compared by hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    /// The id given.
    pub event_id: EventId,
    /// Its place in the log.
    pub seq: Seq,
    /// The sha256 of its canonical content.
    pub hash: [u8; 32],
}

/// The claim a report is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The `command.issued` event.
    pub command: Seq,
    /// The claim.
    pub lease_epoch: LeaseEpoch,
}

/// What became of a commit that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// It is durable.
    Done,
    /// The log has moved on; nothing was written. Load and decide again.
    Moved {
        /// Where the log stands; 0 if there is no such execution.
        version: Seq,
    },
    /// The claim is not current; nothing was written.
    Fenced,
}

impl Commit {
    /// A commit of events alone.
    pub fn new(execution: ExecutionId, expected: Seq, events: Vec<Event>) -> Self {
        Self {
            execution,
            expected,
            events,
            creation: Creation::default(),
            commands: Vec::new(),
            timers: Vec::new(),
            messages: Vec::new(),
            consumed: Vec::new(),
            keys: Vec::new(),
            foreign: Vec::new(),
            fences: Vec::new(),
            snapshot: None,
            priority: Priority::Normal,
        }
    }

    /// The last seq after this commit.
    pub fn version(&self) -> Seq {
        Seq(self.expected.0 + self.events.len() as u64)
    }

    /// Checks what every store relies on: gapless seqs, causes that lie before their effects, one root.
    pub fn check(&self) -> Result<(), Error> {
        let mut last = self.expected;
        for event in &self.events {
            if event.execution_id != self.execution {
                return Err(Error::Malformed("an event of another execution"));
            }
            if event.seq != last.next() {
                return Err(Error::Malformed("seqs do not follow the expected version"));
            }
            let is_root = event.seq == Seq(1);
            if is_root != matches!(event.body, Body::ExecutionRequested(_)) {
                return Err(Error::Malformed("a log begins with its request, once"));
            }
            match event.cause_seq {
                Some(cause) if cause >= event.seq || cause == Seq(0) => {
                    return Err(Error::Malformed("a cause is not before its effect"));
                }
                None if !is_root => return Err(Error::Malformed("an effect without a cause")),
                _ => {}
            }
            last = event.seq;
        }
        if self.version() == Seq(0) {
            return Err(Error::Malformed("an execution without events"));
        }
        Ok(())
    }

    /// Every key this commit claims, given and implied.
    pub(crate) fn claimed_keys(&self) -> impl Iterator<Item = (Key, Option<&Foreign>)> {
        let given = self.keys.iter().map(|key| (key.clone(), None));
        let foreign = self
            .foreign
            .iter()
            .map(|event| (Key::Event(event.event_id), Some(event)));
        given.chain(foreign)
    }
}

impl Issue {
    /// What no two live commands of an execution share: step run, part of it, and dispatch.
    pub(crate) fn unit(&self) -> String {
        use model::command::Work;
        let Command {
            run,
            work,
            dispatch,
            ..
        } = &self.command;
        match work {
            Work::Pipeline => format!("{run}:{dispatch}"),
            Work::Range { from, to, .. } => format!("{run}:{from}-{to}:{dispatch}"),
            Work::Iteration { index } => format!("{run}:{index}:{dispatch}"),
            Work::Prepare => format!("{run}:prepare:{dispatch}"),
        }
    }
}
