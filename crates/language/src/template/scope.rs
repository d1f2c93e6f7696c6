//! The values that a template can read. Names, their order and the envelope view follow the language reference.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::event::{EventKind, EventStatus, LoopStats};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::Outcome;
use model::result_ref::ResultRef;
use model::step_pointer::LoopPointer;
use model::time::Time;
use serde_json::{Map, Value};

use crate::template::LazyValue;
use crate::template::accumulated::AccumulatedParts;
use crate::template::reference::BodyPath;

/// All values that a template can read, by layer. Cheap to clone.
///
/// Plain names are looked up in this order: locals and `input`, `args`, `ctx`, `iter`, `workload`, step results.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Inputs of the execution.
    pub workload: LazyValue,
    /// State of the execution; missing keys are read from `workload`.
    pub ctx: LazyValue,
    /// The token's arguments.
    pub args: LazyValue,
    /// The task's input.
    pub input: LazyValue,
    /// Names written by `set` in this pipeline.
    pub locals: LazyValue,
    /// The loop iteration, or the pipeline-local `iter` of a plain step.
    pub iter: Option<IterationView>,
    /// The finished tasks of this pipeline, by label.
    pub labels: BTreeMap<Name, Envelope>,
    /// The task that finished last: `_prev`.
    pub previous: Option<Envelope>,
    /// The latest result of every step that has run.
    pub steps: Arc<BTreeMap<Name, Envelope>>,
    /// The current outcome: `outcome`, `output`.
    pub outcome: Option<Envelope>,
    /// In conditions, the event that ended the step; in admission rules, the event of the arriving token.
    pub event: Option<EventView>,
    /// `_task`.
    pub task: Option<Name>,
    /// `_attempt`.
    pub attempt: Option<u32>,
    /// The execution.
    pub execution: Arc<ExecutionView>,
    /// `idempotency_key`.
    pub idempotency_key: Option<Arc<str>>,
    /// `now()`, fixed per attempt; `None` on the server.
    pub now: Option<Time>,
    /// `env`, restricted to an allowlist; `None` on the server.
    pub env: Option<LazyValue>,
    /// `keychain`: tainted values. Set only for a tool's call.
    pub keychain: Option<LazyValue>,
    /// Whether tainted values are rendered, rather than replaced by `***`.
    pub reveals_secrets: bool,
    /// Whether an HTTP response used as a whole has `body` as a second name of `data`; set for the input of a program.
    pub names_http_body: bool,
    /// The values loaded so far.
    pub loaded: Arc<LoadedValues>,
}

/// An iteration as templates see it.
#[derive(Debug, Clone, Default)]
pub struct IterationView {
    /// The iterator's name and everything written by `set_iter`.
    pub values: LazyValue,
    /// `iter.index`, `_index`, `loop_index` and `loop.index`; `None` for the pipeline-local `iter` of a plain step.
    pub index: Option<u64>,
    /// `iter.length`.
    pub length: u64,
    /// `iter.parent`: the outer iteration, read-only.
    pub parent: Option<LazyValue>,
}

/// The execution as templates see it.
#[derive(Debug, Clone, Default)]
pub struct ExecutionView {
    /// `execution_id`, `job.id`, `job.uuid`, `job.execution_id`.
    pub execution_id: Option<ExecutionId>,
    /// `path`.
    pub path: Option<Name>,
    /// `version`.
    pub version: Option<u32>,
    /// `parent_execution_id`.
    pub parent_execution_id: Option<ExecutionId>,
}

/// An event as conditions see it. `event.name` equals every alias of its kind.
#[derive(Debug, Clone)]
pub struct EventView {
    /// `event.name`.
    pub kind: EventKind,
    /// `event.step`.
    pub step: Option<Name>,
    /// `event.status`.
    pub status: EventStatus,
    /// `event.payload`.
    pub payload: LazyValue,
    /// `event.timestamp`.
    pub timestamp: Time,
}

/// The result of a task or step as templates see it: a pointer until its content is used.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// Whether the task or step succeeded.
    pub is_ok: bool,
    /// Location of the content.
    pub content: EnvelopeContent,
    /// The tasks of a step, by label.
    pub labels: Arc<Vec<(Name, Envelope)>>,
    /// Whether a map used as a whole includes its status; set for `output` in a task's `set`.
    pub shows_status: bool,
}

/// Location of an envelope's content.
#[derive(Debug, Clone)]
pub enum EnvelopeContent {
    /// In memory.
    Outcome(Arc<Outcome>),
    /// In the `task.done` or `task.failed` event with this seq.
    Event(Seq),
    /// The error of a failure that no task reported.
    Error(Arc<Value>),
    /// A loop's results: in its `loop.done` event if they are inline, otherwise found through the log.
    Loop(LoopPointer),
    /// The parts of an accumulating task, while its pipeline runs.
    Parts(Arc<AccumulatedParts>),
    /// None: a routing step.
    Empty,
}

/// A value that a template uses and that must be loaded first.
#[derive(Debug, Clone, PartialEq)]
pub enum Need {
    /// The outcome recorded in this event.
    Outcome(Seq),
    /// A body.
    Body(Box<ResultRef>),
    /// A loop's results: `{results: […], stats: {…}}`.
    Loop(LoopPointer),
    /// The counts of a loop's iterations, without their results.
    LoopStats(LoopPointer),
    /// A file on the worker that renders the template.
    File(Box<FileNeed>),
}

/// A value that a template uses as a file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileNeed {
    /// The key of the file in `Loaded::files`.
    pub key: String,
    /// The content of the file.
    pub content: FileContent,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum FileContent {
    /// A body, or a part of it.
    Body(Box<BodyPath>),
    /// A value in memory: text is written unchanged, anything else as JSON.
    Value(Value),
}

/// Why a body is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnavailableBody {
    /// `REFERENCE_NOT_AVAILABLE` or `REFERENCE_CORRUPT`.
    pub code: &'static str,
    /// The message.
    pub message: String,
}

/// The values loaded for templates so far.
#[derive(Debug, Clone, Default)]
pub struct LoadedValues {
    /// Outcomes by the event that records them.
    pub outcomes: BTreeMap<Seq, Arc<Outcome>>,
    /// Bodies by the uri of their reference.
    pub bodies: BTreeMap<String, LazyValue>,
    /// Unavailable bodies by the uri of their reference, with the reason.
    pub unavailable: BTreeMap<String, UnavailableBody>,
    /// Files on this machine, by the key of their need.
    pub files: BTreeMap<String, String>,
    /// Loop results, `{results: […], stats: {…}}`, by the event that ended the loop.
    pub loops: BTreeMap<Seq, LazyValue>,
    /// Counts of iterations by the event that ended the loop, if the results are not loaded.
    pub loop_stats: BTreeMap<Seq, LoopStats>,
}

impl Envelope {
    /// Creates an envelope for an outcome in memory.
    pub fn from_outcome(outcome: Arc<Outcome>) -> Self {
        Self {
            is_ok: outcome.is_ok(),
            content: EnvelopeContent::Outcome(outcome),
            labels: Arc::default(),
            shows_status: false,
        }
    }

    /// Returns the envelope as the task's own `set` sees it, with its status.
    #[must_use]
    pub fn with_status(self) -> Self {
        Self {
            shows_status: true,
            ..self
        }
    }

    /// Creates an envelope for the parts of an accumulating task.
    pub fn from_parts(parts: Arc<AccumulatedParts>) -> Self {
        Self {
            is_ok: true,
            content: EnvelopeContent::Parts(parts),
            labels: Arc::default(),
            shows_status: false,
        }
    }

    /// Creates an envelope whose outcome is in the log.
    pub fn from_event(is_ok: bool, seq: Seq) -> Self {
        Self {
            is_ok,
            content: EnvelopeContent::Event(seq),
            labels: Arc::default(),
            shows_status: false,
        }
    }
}

/// The maps of a scope are JSON objects; any other value is treated as empty.
pub(crate) fn empty_map() -> Value {
    Value::Object(Map::new())
}
