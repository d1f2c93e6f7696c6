//! Input of a tool: one rendered call, and the sink for its log lines.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind as IoErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use language::playbook::Effect;
use language::template::{BodyPath, Piece, PieceOrigin};
use model::id::{ExecutionId, Name};
use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use model::result_ref::{ResolvedRef, ResultRef};
use model::task_log::LogStream;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// Key of the paths in a field that holds a bound reference; no playbook can contain it.
const BODY_PATH_KEY: &str = "$within";

/// One call of a tool, with all templates rendered.
#[derive(Clone)]
pub struct Call {
    /// Tool kind.
    pub kind: Name,
    /// Keys of the tool kind under their canonical names, rendered to native values.
    pub fields: Map<String, Value>,
    /// Fields kept as playbook text and values, one list of pieces per command.
    pub pieces: BTreeMap<String, Vec<Vec<Piece>>>,
    /// Source positions of those pieces, under the same keys; empty if unknown.
    pub origins: BTreeMap<String, Vec<Vec<PieceOrigin>>>,
    /// The rendered `input`.
    pub input: Map<String, Value>,
    /// Value of `context` for Python code; built only if the code uses it.
    pub context: Arc<dyn Fn() -> Value + Send + Sync>,
    /// `spec`: `retry`, `isolate`, `sandbox`, `resources` and the like.
    pub spec: Map<String, Value>,
    /// Delivery guarantee of the call.
    pub effect: Effect,
    /// Time limits.
    pub timeout: Timeout,
    /// Idempotency key, the same for every attempt of one task run.
    pub idempotency_key: Arc<str>,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Location of the task in its playbook.
    pub site: CallSite,
    /// Larger results are not stored inline.
    pub inline_bytes_max: usize,
    /// Stores results that do not fit into memory; if `None`, results must fit.
    pub result_writer: Option<results::ResultWriter>,
    /// Access to results by reference; `None` if there are none.
    pub access: Option<ResultAccess>,
    /// Action to run after the outcome is recorded.
    pub deferred: DeferredAction,
}

/// Action that a call defers until its outcome is recorded, such as acknowledging a message.
#[derive(Clone, Default)]
pub struct DeferredAction(Arc<Mutex<Option<BoxFuture<'static, ()>>>>);

impl DeferredAction {
    /// Sets the deferred action.
    pub fn defer(&self, action: impl Future<Output = ()> + Send + 'static) {
        *self.lock() = Some(Box::pin(action));
    }

    /// Takes the deferred action. It starts when it is polled; dropping it cancels it.
    pub fn take(&self) -> Option<BoxFuture<'static, ()>> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<BoxFuture<'static, ()>>> {
        self.0.lock().expect("no code panics while it holds this lock")
    }
}

/// Access to results by reference.
#[derive(Clone)]
pub struct ResultAccess {
    /// Store of the bodies.
    pub body_store: Arc<dyn results::BodyStore>,
    /// Resolves addresses.
    pub resolver: Arc<dyn ReferenceResolver>,
    /// The calling run.
    pub execution: ExecutionId,
}

/// Resolves addresses of the form `noetl://execution/…`.
#[async_trait]
pub trait ReferenceResolver: Send + Sync {
    /// Resolves an address of this run or another one.
    async fn resolve(&self, uri: &str) -> Result<ResolvedRef, TaskError>;
}

/// Time limits of a call and its parts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timeout {
    /// For the whole call.
    pub total: Option<Duration>,
    /// For connecting to the server.
    pub connect: Option<Duration>,
    /// For the time without data from the server.
    pub read: Option<Duration>,
}

/// Location of a task, for tracebacks and relative paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// File or catalog path of the playbook.
    pub file: Arc<str>,
    /// Line of the first line of `code`.
    pub code_line: Option<u32>,
    /// Line of the first line of each `command`.
    pub command_lines: Vec<u32>,
    /// Base directory for relative paths.
    pub base_dir: PathBuf,
}

/// What a kind returns: an outcome, or an error that becomes one.
pub type ToolResult = Result<Outcome, TaskError>;

/// A tool kind. A failed call is an outcome.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Whether a call has no side effects, so that it can be repeated freely.
    fn is_pure(&self) -> bool {
        false
    }

    /// Whether the tool only records its input; it then gets masked values.
    fn records_call(&self) -> bool {
        false
    }

    /// Runs one call; an error becomes its outcome. Returns soon after `stop` is cancelled.
    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult;

    /// Runs one call and returns its outcome.
    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        let outcome = self.run(call, &stop, log).await;
        outcome.unwrap_or_else(Outcome::error)
    }
}

/// Receives the lines that user code prints.
pub trait LogSink: Send + Sync {
    /// Receives one line, without its line ending.
    fn write_line(&self, stream: LogStream, text: &str);

    /// Masks secrets in the output; `None` if there are none.
    fn output_mask(&self) -> Option<&dyn OutputMask> {
        None
    }
}

/// Masks secrets in the output of a program before it is cut.
pub trait OutputMask: Send + Sync {
    /// Masks bytes up to the point where a secret might continue, or all of them at the end of the output. Returns the
    /// masked bytes and the number of input bytes they replace.
    fn mask(&self, bytes: &[u8], is_end: bool) -> (Vec<u8>, usize);
}

/// A sink that discards every line.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiscardingLogSink;

impl LogSink for DiscardingLogSink {
    fn write_line(&self, _stream: LogStream, _text: &str) {}
}

impl Call {
    /// A call with only its kind; the caller sets the other fields.
    pub fn new(kind: &str) -> Self {
        Self {
            kind: kind.into(),
            fields: Map::new(),
            pieces: BTreeMap::new(),
            origins: BTreeMap::new(),
            input: Map::new(),
            context: Arc::new(|| Value::Object(Map::new())),
            spec: Map::new(),
            effect: Effect::default(),
            timeout: Timeout::default(),
            idempotency_key: "".into(),
            attempt: 1,
            site: CallSite {
                file: "<playbook>".into(),
                code_line: None,
                command_lines: Vec::new(),
                base_dir: PathBuf::from("."),
            },
            inline_bytes_max: 64 * 1024,
            result_writer: None,
            access: None,
            deferred: DeferredAction::default(),
        }
    }

    /// Field value for a reference to a value inside a body.
    pub fn body_path_field(body_path: &BodyPath) -> Value {
        json!({BODY_PATH_KEY: body_path.paths, "reference": body_path.reference})
    }

    /// Parses a field that [`body_path_field`](Self::body_path_field) created.
    pub fn body_path(map: &Map<String, Value>) -> Option<BodyPath> {
        Some(BodyPath {
            paths: serde_json::from_value(map.get(BODY_PATH_KEY)?.clone()).ok()?,
            reference: serde_json::from_value(map.get("reference")?.clone()).ok()?,
        })
    }

    /// A field that is present and not null.
    pub fn field(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// A field that must be text if present.
    pub fn text_field(&self, key: &str) -> Result<Option<&str>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong_type_error(key, "text", other)),
        }
    }

    /// A field that must be a boolean if present.
    pub fn flag_field(&self, key: &str) -> Result<Option<bool>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("true") => Ok(Some(true)),
            Some(Value::String(text)) if text.eq_ignore_ascii_case("false") => Ok(Some(false)),
            Some(other) => Err(self.wrong_type_error(key, "true or false", other)),
        }
    }

    /// A field that must be a map if present.
    pub fn map_field(&self, key: &str) -> Result<Option<&Map<String, Value>>, TaskError> {
        match self.field(key) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(other) => Err(self.wrong_type_error(key, "a map", other)),
        }
    }

    /// Error for a key with a value of the wrong type.
    pub fn wrong_type_error(&self, key: &str, wanted: &str, value: &Value) -> TaskError {
        let kind = &self.kind;
        let actual = type_name(value);
        TaskError::new(
            ErrorKind::Schema,
            "TOOL_INPUT",
            format!("`{key}` of a `{kind}` task must be {wanted}, not {actual}"),
        )
        .with_detail("key", key)
    }

    /// Error for a missing key.
    pub fn missing_key_error(&self, key: &str, remedy: &str) -> TaskError {
        let kind = &self.kind;
        TaskError::new(
            ErrorKind::Schema,
            "TOOL_INPUT",
            format!("`{key}` is required in a `{kind}` task: {remedy}"),
        )
        .with_detail("key", key)
    }

    /// Path relative to the playbook's directory.
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        self.site.base_dir.join(Path::new(path))
    }
}

impl fmt::Debug for Call {
    /// Shows only the names of the fields, because their values may be secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("kind", &self.kind)
            .field("fields", &self.fields.keys().collect::<Vec<_>>())
            .field("timeout", &self.timeout)
            .field("attempt", &self.attempt)
            .field("place", &self.site)
            .finish_non_exhaustive()
    }
}

pub(crate) use model::raw::json_type_name as type_name;

/// Error of a cancelled call.
pub fn cancelled_error() -> TaskError {
    TaskError::new(ErrorKind::Cancelled, "CANCELLED", "cancelled")
}

/// Error of a call that exceeded its timeout.
pub fn timeout_error(limit: Duration) -> TaskError {
    TaskError::new(
        ErrorKind::Timeout,
        "TIMEOUT",
        format!("timed out after {limit:?}; raise `timeout`, or retry it in the task policy"),
    )
    .with_detail("timeout_seconds", limit.as_secs_f64())
}

/// Waits for the timeout of a call; forever if it has none.
pub async fn wait_for_timeout(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// Runs work until it ends, the call is cancelled, or its time limit is reached.
pub async fn run_within_limit<T>(
    limit: Option<Duration>,
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, TaskError>>,
) -> Result<T, TaskError> {
    tokio::select! {
        biased;
        done = work => done,
        () = stop.cancelled() => Err(cancelled_error()),
        limit = wait_for_timeout(limit) => Err(timeout_error(limit)),
    }
}

/// Error of a temporary file.
pub fn scratch_error(error: &std::io::Error) -> TaskError {
    let code = match error.kind() {
        IoErrorKind::StorageFull | IoErrorKind::QuotaExceeded => "STORAGE_FULL",
        _ => "STORAGE_UNAVAILABLE",
    };
    let message = format!("cannot write or read a temporary file: {error}");
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Storage, code, message)
    }
}

/// Successful outcome with a stored result.
pub fn stored_outcome(reference: ResultRef) -> Outcome {
    Outcome::Ok(Success {
        reference: Some(Box::new(reference)),
        ..Success::default()
    })
}

/// Error of a result that could not be stored.
pub fn store_error(error: &results::Error) -> TaskError {
    TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.to_string())
    }
}

/// Error of a result that could not be read.
pub(crate) fn read_error(error: &results::Error, reference: &ResultRef) -> TaskError {
    let error = TaskError {
        retryable: error.is_retryable(),
        ..TaskError::new(ErrorKind::Storage, error.code(), error.message_for(reference))
    };
    error.with_detail("ref", reference.uri.as_str())
}
