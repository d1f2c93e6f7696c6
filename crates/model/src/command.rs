//! Commands: what a worker should do, by reference.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::id::{CommandId, Name, PlaybookHash, Seq, StepRunId};
use crate::raw::Raw;
use crate::time::Time;

/// Work offered to workers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Command {
    /// Derived from the event that issued it.
    pub id: CommandId,
    /// The text to run.
    pub playbook: PlaybookHash,
    /// The step run it belongs to.
    pub run: StepRunId,
    /// Which part of that run.
    pub work: Work,
    /// Counts the offers of the same work from 1.
    pub dispatch: u32,
    /// Who may take it.
    pub pool: Name,
    /// The token's arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Raw>,
    /// The `loop.started` event with the elements, for loop work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_started: Option<Seq>,
}

/// Which part of a step run a command covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// The whole pipeline of a plain step.
    Pipeline,
    /// The loop's iterations `from..to`, at most `width` at once.
    Range {
        /// The first index.
        from: u64,
        /// One past the last index.
        to: u64,
        /// How many at once.
        width: u32,
    },
    /// One iteration that was suspended and goes on.
    Iteration {
        /// Its index.
        index: u64,
    },
    /// Render the loop's collection where its inputs can be read, and store it.
    Prepare,
}

/// How far a pipeline has come: a fold of its task events, holding pointers into the log, never values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Continuation {
    /// The task that runs now or next.
    #[serde(default)]
    pub cursor: Cursor,
    /// How often each label was entered.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub visits: BTreeMap<Name, u32>,
    /// The current try of the current visit; 0 before the first.
    #[serde(default)]
    pub attempt: u32,
    /// Whether the last outcome of the current visit left its effect unknown, and in which try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<u32>,
    /// The latest outcome of each label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<Name, OutcomePointer>,
    /// The parts of each label that ended well more than once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parts: BTreeMap<Name, Parts>,
    /// The label that ended last.
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
    /// How often the pipeline jumped.
    #[serde(default)]
    pub jumps: u32,
    /// What it is doing.
    #[serde(default)]
    pub stage: Stage,
}

/// A place in a pipeline, by label: the fold never needs the playbook to know it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursor {
    /// Before the first task.
    #[default]
    Start,
    /// At this task.
    At(Name),
    /// Behind this task.
    After(Name),
}

/// Where a task's outcome is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutcomePointer {
    /// The `task.done` or `task.failed` event.
    pub seq: Seq,
    /// Whether it ended well.
    pub ok: bool,
    /// The size of its text in the log.
    pub bytes: u32,
    /// The page it is; the visit where none is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<i64>,
    /// The size of its body, where that lives outside the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<u64>,
}

/// The parts of one label: the visits that ended well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Where each page is recorded, in page order; one that comes again takes the place of the one before.
    pub by_page: Vec<(i64, Seq)>,
    /// The size of their bodies.
    pub bytes: u64,
    /// Whether some of them live outside the log.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_outside: bool,
}

impl Parts {
    /// Adds a part.
    pub fn add(&mut self, pointer: &OutcomePointer) {
        let part = (pointer.page.unwrap_or(1), pointer.seq);
        match self
            .by_page
            .binary_search_by_key(&part.0, |(page, _)| *page)
        {
            Ok(place) => self.by_page[place] = part,
            Err(place) => self.by_page.insert(place, part),
        }
        self.bytes += pointer.outside.unwrap_or(u64::from(pointer.bytes));
        self.is_outside |= pointer.outside.is_some();
    }
}

impl Continuation {
    /// The visits of a label that ended well, however many.
    pub fn parts_of(&self, label: &Name) -> Option<Parts> {
        if let Some(parts) = self.parts.get(label) {
            return Some(parts.clone());
        }
        let only = self.outcomes.get(label).filter(|pointer| pointer.ok)?;
        let mut parts = Parts::default();
        parts.add(only);
        Some(parts)
    }
}

/// What a pipeline is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The task at the position has not begun.
    #[default]
    Ready,
    /// The task began and no outcome is recorded.
    Started,
    /// An attempt failed; the next one may begin at the given time.
    Retrying {
        /// When.
        due: Time,
        /// Whether the slot was freed for it.
        suspended: bool,
    },
    /// The task waits for something outside, since the given `task.started` event.
    Awaiting {
        /// That event.
        since: Seq,
    },
    /// What the task waited for has come.
    Answered {
        /// The event it came in.
        by: Seq,
        /// The `task.started` event that says what was awaited.
        since: Seq,
    },
    /// The last task ended, or a rule ended the pipeline well.
    Done,
    /// A rule ended the pipeline as a failure.
    Failed,
}

/// A change to the timers that run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerChange {
    /// Run it.
    Set {
        /// The `timer.set` event.
        seq: Seq,
        /// When it fires.
        due: Time,
    },
    /// Forget it.
    Clear {
        /// The `timer.set` event.
        seq: Seq,
    },
}

/// Whether a worker is done with a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportEnd {
    /// It goes on.
    #[default]
    Open,
    /// Everything the command covers has ended or is suspended.
    Finished,
    /// It gives back what has not ended: pause, drain, or nothing more may start.
    Released,
    /// It was told to stop and has.
    Stopped,
}
