//! What enters a tool: one call with everything rendered, and the sink its log lines go to.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use model::id::{ExecutionId, Name};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::Effect;
use model::result_ref::{Resolved, ResultRef};
use model::template::{Bound, Piece, PieceOrigin};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// The key under which a field that takes references holds paths; no author's map has it.
const BOUND: &str = "$within";

/// One call of a tool, everything rendered.
#[derive(Clone)]
pub struct Call {
    /// The tool's kind.
    pub kind: Name,
    /// The kind's own keys, canonical, rendered natively.
    pub fields: Map<String, Value>,
    /// Fields kept as author text and values, one list of pieces per command.
    pub pieces: BTreeMap<String, Vec<Vec<Piece>>>,
    /// Where those pieces come from, under the same keys; empty where nobody knows.
    pub origins: BTreeMap<String, Vec<Vec<PieceOrigin>>>,
    /// The rendered `input`.
    pub input: Map<String, Value>,
    /// What python code sees as `context`; built only if the code asks for it.
    pub context: Arc<dyn Fn() -> Value + Send + Sync>,
    /// `spec`: `retry`, `isolate`, `sandbox`, `resources` and the like.
    pub knobs: Map<String, Value>,
    /// How often its effect may happen.
    pub effect: Effect,
    /// How long it may take.
    pub timeout: Timeout,
    /// The same for every try of one task run.
    pub idempotency_key: Arc<str>,
    /// Which try this is, from 1.
    pub attempt: u32,
    /// Where the task stands in its playbook.
    pub place: Place,
    /// Results larger than this are not kept inline.
    pub inline_bytes_max: usize,
    /// Where a result goes that is too large to be held; without one, results must fit into memory.
    pub keeper: Option<results::Keeper>,
    /// How results are reached by reference; none where there is nothing to reach.
    pub access: Option<Access>,
    /// What the call leaves to be done.
    pub afterwards: Afterwards,
}

/// What a call leaves to be done once its outcome is recorded, such as to acknowledge what the outcome now holds.
#[derive(Clone, Default)]
pub struct Afterwards(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl Afterwards {
    /// Leaves something to be done.
    pub fn leave(&self, rest: impl Future<Output = ()> + Send + 'static) {
        *self.lock() = Some(Box::pin(rest));
    }

    /// What was left. It is not begun before it is polled, and nothing happens if it is dropped.
    pub fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<BoxFuture<'static, ()>>> {
        self.0.lock().expect("leaving something does not panic")
    }
}

/// How a tool reaches results by reference.
#[derive(Clone)]
pub struct Access {
    /// Where bodies are kept.
    pub bodies: Arc<dyn results::Bodies>,
    /// Who knows what an address leads to.
    pub references: Arc<dyn References>,
    /// The run that calls.
    pub execution: ExecutionId,
}

/// Knows what an address, `noetl://execution/…`, leads to.
#[async_trait]
pub trait References: Send + Sync {
    /// Looks an address up, in this run or another.
    async fn look_up(&self, uri: &str) -> Result<Resolved, TaskError>;
}

/// How long a call may take, as a whole and in its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeout {
    /// The whole call.
    pub total: Option<Duration>,
    /// Reaching the peer.
    pub connect: Option<Duration>,
    /// Silence of the peer.
    pub read: Option<Duration>,
}

/// Where a task stands: for tracebacks and relative paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The playbook's file or catalog path.
    pub file: Arc<str>,
    /// The line on which the first line of `code` stands.
    pub code_line: Option<u32>,
    /// The line on which the first line of each `command` stands.
    pub command_lines: Vec<u32>,
    /// What relative paths are relative to.
    pub base_dir: PathBuf,
}

/// A kind of tool. A call that fails is an outcome, never an `Err`.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Whether a call has no effect outside, so that it may be made again freely.
    fn is_pure(&self) -> bool;

    /// Whether it does nothing but record what it is given: then it is given only what may be shown.
    fn records_call(&self) -> bool {
        false
    }

    /// Makes one call. Ends soon after `stop` is cancelled.
    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome;
}

/// Which stream of a process a line came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes the lines that user code prints.
pub trait LogSink: Send + Sync {
    /// One line, without its end.
    fn line(&self, stream: Stream, text: &str);

    /// What masks the secrets in an output; none where there are none.
    fn output_mask(&self) -> Option<&dyn OutputMask> {
        None
    }
}

/// Masks the secrets in what a program prints, before any of it is cut.
pub trait OutputMask: Send + Sync {
    /// Masks the beginning of some bytes, as far as no secret may go on behind them, or all of them at the end of the
    /// output. Answers what came out, and how many bytes went in.
    fn mask(&self, bytes: &[u8], is_end: bool) -> (Vec<u8>, usize);
}

/// A sink that drops everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoLog;

impl LogSink for NoLog {
    fn line(&self, _stream: Stream, _text: &str) {}
}

impl Call {
    /// A call with nothing but its kind, to be filled in.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.into(),
            fields: Map::new(),
            pieces: BTreeMap::new(),
            origins: BTreeMap::new(),
            input: Map::new(),
            context: Arc::new(|| Value::Object(Map::new())),
            knobs: Map::new(),
            effect: Effect::default(),
            timeout: Timeout::default(),
            idempotency_key: "".into(),
            attempt: 1,
            place: Place {
                file: "<playbook>".into(),
                code_line: None,
                command_lines: Vec::new(),
                base_dir: PathBuf::from("."),
            },
            inline_bytes_max: 64 * 1024,
            keeper: None,
            access: None,
            afterwards: Afterwards::default(),
        }
    }

    /// A value inside a body, as a field holds it that takes references.
    pub fn bound_field(bound: &Bound) -> Value {
        json!({BOUND: bound.paths, "reference": bound.reference})
    }

    /// What such a field holds.
    pub(crate) fn bound(map: &Map<String, Value>) -> Option<Bound> {
        Some(Bound {
            paths: serde_json::from_value(map.get(BOUND)?.clone()).ok()?,
            reference: serde_json::from_value(map.get("reference")?.clone()).ok()?,
        })
    }

    /// A field that is present and not null.
    pub(crate) fn field(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// A field that must be text if it is present.
    pub(crate) fn text(&self, key: &str) -> Result<Option<&str>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type(key, "text", other)),
        }
    }

    /// A field that must be a boolean if it is present.
    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(other) => Err(self.wrong_type(key, "true or false", other)),
        }
    }

    /// A field that must be a map if it is present.
    pub(crate) fn map(&self, key: &str) -> Result<Option<&Map<String, Value>>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong_type(key, "a map", other)),
        }
    }

    /// The error for a key whose value has the wrong type.
    pub(crate) fn wrong_type(&self, key: &str, wanted: &str, value: &Value) -> TaskError {
        let kind = &self.kind;
        let found = type_name(value);
        TaskError::new(
            ErrorKind::Schema,
            "TOOL_INPUT",
            format!("`{key}` of a `{kind}` task must be {wanted}, not {found}"),
        )
        .with("key", key)
    }

    /// The error for a key that is missing.
    pub(crate) fn missing(&self, key: &str, remedy: &str) -> TaskError {
        let kind = &self.kind;
        TaskError::new(
            ErrorKind::Schema,
            "TOOL_INPUT",
            format!("a `{kind}` task needs `{key}`: {remedy}"),
        )
        .with("key", key)
    }

    /// A path of the playbook, relative to its folder.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        self.place.base_dir.join(Path::new(path))
    }
}

impl fmt::Debug for Call {
    /// Shows what is called, not with what: fields may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("kind", &self.kind)
            .field("fields", &self.fields.keys().collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .field("attempt", &self.attempt)
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

pub(crate) use model::raw::kind_of as type_name;

/// The error of a call that was stopped from outside.
pub(crate) fn cancelled() -> TaskError {
    TaskError::new(
        ErrorKind::Cancelled,
        "CANCELLED",
        "the call was stopped before it ended",
    )
}

/// The error of a call that took longer than it may.
pub(crate) fn timed_out(limit: Duration) -> TaskError {
    TaskError::new(
        ErrorKind::Timeout,
        "TIMEOUT",
        format!("the call took longer than its timeout of {limit:?}"),
    )
    .with("timeout_seconds", limit.as_secs_f64())
}

/// Waits for the end of the time a call may take; for ever where there is none.
pub(crate) async fn elapsed(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// The error of a disk that does not take or give what waits on it.
pub(crate) fn storage(error: &std::io::Error) -> TaskError {
    let code = match error.kind() {
        IoErrorKind::StorageFull | IoErrorKind::QuotaExceeded => "STORAGE_FULL",
        _ => "STORAGE_UNAVAILABLE",
    };
    let message = format!("the response cannot be put aside: {error}");
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Storage, code, message)
    }
}

/// The error of a body that could not be stored.
pub(crate) fn not_kept(error: &results::Error) -> TaskError {
    TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.to_string())
    }
}

/// The error of a body that could not be read.
pub(crate) fn not_read(error: &results::Error, reference: &ResultRef) -> TaskError {
    let told = TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.told_of(reference))
    };
    told.with("ref", reference.uri.as_str())
}
