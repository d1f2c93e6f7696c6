//! What a template can see. The names, their order and the envelope view are those of the language reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::event::{Kind, LoopStats, Status};
use crate::id::{ExecutionId, Name, Seq};
use crate::outcome::Outcome;
use crate::result_ref::ResultRef;
use crate::template::Data;
use crate::template::gathered::Gathered;
use crate::template::reference::Bound;
use crate::time::Time;

/// Everything a template can see, by layer. Cheap to clone.
///
/// Bare names look up, in this order: locals and `input`, `args`, `ctx`, `iter`, `workload`, step results.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Inputs of the execution.
    pub workload: Data,
    /// State of the execution; reads fall through to `workload`.
    pub ctx: Data,
    /// The token's payload.
    pub args: Data,
    /// The task's input.
    pub input: Data,
    /// Names written by `set` in this pipeline.
    pub locals: Data,
    /// The loop iteration, or the pipeline-local `iter` of a plain step.
    pub iter: Option<Iter>,
    /// The tasks of this pipeline that have ended, by label.
    pub labels: BTreeMap<Name, Envelope>,
    /// The task that ended last: `_prev`.
    pub previous: Option<Envelope>,
    /// The latest envelope of every step that has run.
    pub steps: Arc<BTreeMap<Name, Envelope>>,
    /// The outcome just reached: `outcome`, `output`.
    pub outcome: Option<Envelope>,
    /// The boundary event, in guards; the arriving token's, in admission.
    pub event: Option<EventView>,
    /// `_task`.
    pub task: Option<Name>,
    /// `_attempt`.
    pub attempt: Option<u32>,
    /// The execution.
    pub run: Arc<RunView>,
    /// `idempotency_key`.
    pub idempotency_key: Option<Arc<str>>,
    /// `now()`, fixed per attempt; absent on the server.
    pub now: Option<Time>,
    /// `env`, allow-listed; absent on the server.
    pub env: Option<Data>,
    /// `keychain`: values that are tainted. Present only for a tool's call.
    pub keychain: Option<Data>,
    /// Whether a tainted value may be rendered as it is, rather than as `***`.
    pub reveals_secrets: bool,
    /// Whether an HTTP response used whole has `body` beside `data`: so the input of a program names it.
    pub names_http_body: bool,
    /// What has been loaded so far.
    pub loaded: Arc<Loaded>,
}

/// One iteration as templates see it.
#[derive(Debug, Clone, Default)]
pub struct Iter {
    /// The iterator's name and everything written by `set_iter`.
    pub values: Data,
    /// `iter.index`, and `_index`, `loop_index`, `loop.index`; none for the pipeline-local `iter` of a plain step.
    pub index: Option<u64>,
    /// `iter.length`.
    pub length: u64,
    /// `iter.parent`: the outer iteration, read-only.
    pub parent: Option<Data>,
}

/// The execution as templates see it.
#[derive(Debug, Clone, Default)]
pub struct RunView {
    /// `execution_id`, `job.id`, `job.uuid`, `job.execution_id`.
    pub execution_id: Option<ExecutionId>,
    /// `path`.
    pub path: Option<Name>,
    /// `version`.
    pub version: Option<u32>,
    /// `parent_execution_id`.
    pub parent_execution_id: Option<ExecutionId>,
}

/// An event as guards see it. `event.name` equals every alias of its kind.
#[derive(Debug, Clone)]
pub struct EventView {
    /// `event.name`.
    pub kind: Kind,
    /// `event.step`.
    pub step: Option<Name>,
    /// `event.status`.
    pub status: Status,
    /// `event.payload`.
    pub payload: Data,
    /// `event.timestamp`.
    pub timestamp: Time,
}

/// How a task or step ended, as templates see it: a pointer until something in it is used.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Whether it ended well.
    pub is_ok: bool,
    /// Where its content is.
    pub content: Content,
    /// The tasks of a step, by label.
    pub labels: Arc<Vec<(Name, Envelope)>>,
    /// Whether a mapping used whole has its status beside it: so a task's `set` sees `output`.
    pub shows_status: bool,
}

/// Where an envelope's content is.
#[derive(Debug, Clone)]
pub enum Content {
    /// At hand.
    Outcome(Arc<Outcome>),
    /// In the `task.done` or `task.failed` event with this seq.
    Event(Seq),
    /// A failure that no task reported: the error alone.
    Error(Arc<Value>),
    /// A loop's results: in its `loop.done` event where they are inline, else found through the log.
    Loop(LoopPointer),
    /// The parts of a task that accumulates, while its pipeline runs.
    Parts(Arc<Gathered>),
    /// Nothing: a routing step.
    Empty,
}

/// Where a loop's results are found.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct LoopPointer {
    /// Its `loop.started` event.
    pub started: Seq,
    /// Its boundary event.
    pub done: Seq,
}

/// Something a template touched that has to be loaded first.
#[derive(Debug, Clone, PartialEq)]
pub enum Need {
    /// The outcome recorded in this event.
    Outcome(Seq),
    /// A body.
    Body(Box<ResultRef>),
    /// A loop's results: `{results: […], stats: {…}}`.
    Loop(LoopPointer),
    /// How a loop's iterations ended, without their results.
    LoopStats(LoopPointer),
    /// A file on the worker that renders.
    File(Box<FileNeed>),
}

/// A value that a template wants as a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileNeed {
    /// What the file is found by among those that are there.
    pub key: String,
    /// What is in it.
    pub of: FileOf,
}

/// What is in a file.
#[derive(Debug, Clone, PartialEq)]
pub enum FileOf {
    /// A body, or a part of it.
    Body(Box<Bound>),
    /// A value at hand: text as it is, anything else as JSON.
    Value(Value),
}

/// Why a body cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// `REFERENCE_NOT_AVAILABLE` or `REFERENCE_CORRUPT`.
    pub code: &'static str,
    /// In words.
    pub message: String,
}

/// What has been loaded for templates so far.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Outcomes by the event that records them.
    pub outcomes: BTreeMap<Seq, Arc<Outcome>>,
    /// Bodies by the uri of their reference.
    pub bodies: BTreeMap<String, Data>,
    /// Bodies that cannot be had, by the uri of their reference, and why.
    pub unavailable: BTreeMap<String, Unavailable>,
    /// Files on this machine, by the key of their need.
    pub files: BTreeMap<String, String>,
    /// Loop results, `{results: […], stats: {…}}`, by the loop's boundary event.
    pub loops: BTreeMap<Seq, Data>,
    /// How the iterations of loops ended, by the loop's boundary event, where their results are not loaded.
    pub loop_stats: BTreeMap<Seq, LoopStats>,
}

impl Envelope {
    /// An envelope around an outcome at hand.
    pub fn of(outcome: Arc<Outcome>) -> Self {
        Self {
            is_ok: outcome.is_ok(),
            content: Content::Outcome(outcome),
            labels: Arc::default(),
            shows_status: false,
        }
    }

    /// The outcome just reached, as its task's own `set` sees it.
    #[must_use]
    pub fn with_status(self) -> Self {
        Self {
            shows_status: true,
            ..self
        }
    }

    /// An envelope around what a task has collected.
    pub fn gathered(parts: Arc<Gathered>) -> Self {
        Self {
            is_ok: true,
            content: Content::Parts(parts),
            labels: Arc::default(),
            shows_status: false,
        }
    }

    /// An envelope whose outcome is in the log.
    pub fn recorded(is_ok: bool, seq: Seq) -> Self {
        Self {
            is_ok,
            content: Content::Event(seq),
            labels: Arc::default(),
            shows_status: false,
        }
    }
}

/// A scope's JSON maps are objects; anything else is read as empty.
pub(crate) fn empty_map() -> Value {
    Value::Object(Map::new())
}
