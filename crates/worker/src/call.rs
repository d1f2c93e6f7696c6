//! Calls a tool: turns a rendered task into a call, and the call into an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use language::playbook::Task;
use language::template::{Envelope, EnvelopeContent, LoadedValues, Need, Scope};
use model::event::EventLocation;
use model::id::Name;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value};
use tools::{Call, CallSite, DeferredAction, LogSink, Tool};

use crate::command_context::{CommandContext, WorkError};
use crate::host_wait::HostWait;
use crate::logs::{LineLimiter, LogLine, LogStream};
use crate::render::RenderedCall;
use crate::secrets::{CUT_BYTES_MIN, SecretMasker};
use crate::store_results::{inline_bytes_max, result_writer, warn_of_missing};
use crate::{load, lookup};

/// How long a tool may take to end after it was stopped; longer than the time that tools give to their processes.
const STOP_GRACE: Duration = Duration::from_secs(7);

/// A call that is ready to be made.
pub(crate) struct PreparedCall<'a> {
    /// The tool to call.
    pub(crate) tool: &'a Arc<dyn Tool>,
    /// The task that makes the call.
    pub(crate) task: &'a Task,
    /// The rendered fields of the task.
    pub(crate) rendered: RenderedCall,
    /// The names that programs of the task can read.
    pub(crate) scope: &'a mut Scope,
}

/// Makes one call and returns its outcome and deferred action. `location` identifies the attempt.
pub(crate) async fn call_tool(
    command_context: &CommandContext,
    prepared: PreparedCall<'_>,
    location: &EventLocation,
) -> Result<(Outcome, DeferredAction), WorkError> {
    let PreparedCall {
        tool,
        task,
        rendered: rendered_call,
        scope,
    } = prepared;
    let mut call = Call {
        kind: task.kind.clone(),
        fields: rendered_call.fields,
        pieces: rendered_call.pieces,
        origins: rendered_call.origins,
        input: input_map(rendered_call.input.as_ref().map(language::template::LazyValue::json)),
        context: Arc::new(|| Value::Object(Map::new())),
        spec: rendered_call.knobs,
        effect: task.effect,
        timeout: rendered_call.timeout,
        idempotency_key: scope.idempotency_key.clone().unwrap_or_else(|| "".into()),
        attempt: location.attempt,
        site: CallSite {
            file: command_context.prepared_playbook.file.clone(),
            code_line: task.code_line,
            command_lines: task.command_lines.clone(),
            base_dir: command_context.prepared_playbook.base_dir.clone(),
        },
        inline_bytes_max: inline_bytes_max(task),
        result_writer: Some(result_writer(command_context, task, location)),
        access: Some(lookup::result_access(command_context)),
        deferred: DeferredAction::default(),
    };
    if task.kind_spec().reads_context {
        load_context(command_context, &call, scope).await?;
        let scope = scope.clone();
        call.context = Arc::new(move || python_context(&scope));
    }
    let log = TaskLog {
        context: command_context,
        location,
        task,
        limiter: Mutex::default(),
        masker: rendered_call.masker.or_else(|| command_context.masker()),
        has_open_line: Mutex::default(),
    };
    let deferred = call.deferred.clone();
    let missing = call.result_writer.as_ref().map(|writer| writer.missing_paths.clone());
    let outcome = call_until_host_has_room(command_context, tool, call, &log).await?;
    let missing = missing.map(|missing| missing.take()).unwrap_or_default();
    warn_of_missing(command_context, task, location, &missing);
    Ok((outcome, deferred))
}

/// Calls the tool; if the host is out of descriptors or processes, waits and calls it again.
async fn call_until_host_has_room(
    context: &CommandContext,
    tool: &Arc<dyn Tool>,
    call: Call,
    log: &TaskLog<'_>,
) -> Result<Outcome, WorkError> {
    let mut wait = HostWait::new(context);
    loop {
        let outcome = call_catching_panics(context, tool, call.clone(), log).await?;
        match outcome.failure() {
            Some(error) if error.code == tools::HOST_EXHAUSTED => {
                wait.wait_for_call(&error.message).await?;
            }
            _ => return Ok(outcome),
        }
    }
}

/// Calls the tool. A panic is a failure; a tool that does not end after it was stopped is abandoned.
async fn call_catching_panics(
    context: &CommandContext,
    tool: &Arc<dyn Tool>,
    call: Call,
    log: &TaskLog<'_>,
) -> Result<Outcome, WorkError> {
    let stop_token = context.lease.stop_token();
    let call = AssertUnwindSafe(tool.call(call, stop_token.child_token(), log)).catch_unwind();
    let result = if tool.is_pure() {
        call.await
    } else {
        let overdue = async {
            stop_token.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            biased;
            result = call => result,
            () = overdue => return Err(WorkError::Interrupted),
        }
    };
    let outcome = result.unwrap_or_else(|panic| Outcome::error(panic_error(panic.as_ref())));
    let is_cancelled = |error: &TaskError| error.kind == ErrorKind::Cancelled;
    if stop_token.is_cancelled() && outcome.failure().is_some_and(is_cancelled) {
        // Whether the call had its effect is unknown. Without an outcome, the log records exactly that.
        return Err(WorkError::Interrupted);
    }
    Ok(outcome)
}

fn panic_error(panic: &(dyn std::any::Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = format!("the tool panicked: {}", text.unwrap_or_default());
    TaskError::new(ErrorKind::Unknown, "TOOL_PANIC", message)
}

fn input_map(value: Option<&Value>) -> Map<String, Value> {
    let map = value.and_then(Value::as_object);
    map.cloned().unwrap_or_default()
}

/// Loads results of steps whose names the python code contains, if it uses `context`: code cannot load them later.
async fn load_context(context: &CommandContext, call: &Call, scope: &mut Scope) -> Result<(), WorkError> {
    let code = call.fields.get("code").and_then(Value::as_str);
    let Some(code) = code.filter(|code| code.contains("context")) else {
        return Ok(());
    };
    let steps = scope.steps.clone();
    let named_steps: Vec<_> = steps
        .iter()
        .filter(|(name, _)| code.contains(name.as_str()))
        .map(|(_, envelope)| envelope)
        .collect();
    let outcomes: Vec<_> = named_steps
        .iter()
        .filter_map(|envelope| outcome_need(envelope))
        .collect();
    scope.loaded = load::load_needs(context, &outcomes).await?;
    let bodies: Vec<_> = named_steps
        .iter()
        .filter_map(|envelope| body_need(envelope, &scope.loaded))
        .collect();
    scope.loaded = load::load_needs(context, &bodies).await?;
    Ok(())
}

fn outcome_need(envelope: &Envelope) -> Option<Need> {
    match &envelope.content {
        EnvelopeContent::Event(seq) => Some(Need::Outcome(*seq)),
        EnvelopeContent::Loop(pointer) => Some(Need::Loop(pointer.clone())),
        EnvelopeContent::Outcome(_)
        | EnvelopeContent::Error(_)
        | EnvelopeContent::Parts(_)
        | EnvelopeContent::Empty => None,
    }
}

fn body_need(envelope: &Envelope, loaded: &LoadedValues) -> Option<Need> {
    let EnvelopeContent::Event(seq) = &envelope.content else {
        return None;
    };
    match loaded.outcomes.get(seq).map(AsRef::as_ref) {
        Some(Outcome::Ok(success)) => success.reference.clone().map(Need::Body),
        _ => None,
    }
}

/// Builds `context` for python code: workload, loaded step results and the execution ID.
fn python_context(scope: &Scope) -> Value {
    let mut context = scope.workload.json().as_object().cloned().unwrap_or_default();
    for (name, envelope) in scope.steps.iter() {
        if let Some(result) = loaded_result(envelope, &scope.loaded) {
            context.insert(name.to_string(), result);
        }
    }
    let workload = scope.workload.json().clone();
    context.entry("workload").or_insert(workload);
    if let Some(id) = scope.execution.execution_id {
        context.insert("execution_id".to_owned(), id.to_string().into());
    }
    Value::Object(context)
}

fn loaded_result(envelope: &Envelope, loaded: &LoadedValues) -> Option<Value> {
    let outcome = match &envelope.content {
        EnvelopeContent::Outcome(outcome) => outcome,
        EnvelopeContent::Event(seq) => loaded.outcomes.get(seq)?,
        EnvelopeContent::Loop(pointer) => {
            return Some(loaded.loops.get(&pointer.done)?.json().clone());
        }
        EnvelopeContent::Error(_) | EnvelopeContent::Parts(_) | EnvelopeContent::Empty => {
            return None;
        }
    };
    let Outcome::Ok(success) = outcome.as_ref() else {
        return None;
    };
    let mut result = match &success.reference {
        Some(reference) => loaded.bodies.get(&reference.uri)?.json().clone(),
        None => success.result.clone(),
    };
    // Programs can read the body of an HTTP response as `data` or `body`.
    if success.facets.http.is_some()
        && let Value::Object(response) = &mut result
        && let Some(data) = response.get("data").cloned()
    {
        response.entry("body").or_insert(data);
    }
    Some(result)
}

/// Log sink of one attempt.
struct TaskLog<'a> {
    context: &'a CommandContext,
    location: &'a EventLocation,
    task: &'a Task,
    limiter: Mutex<LineLimiter>,
    masker: Option<Arc<SecretMasker>>,
    /// Whether the last line of each stream continues in the next one.
    has_open_line: Mutex<[bool; 2]>,
}

impl TaskLog<'_> {
    fn mask_line(&self, stream: LogStream, text: &str) -> String {
        let Some(masker) = &self.masker else {
            return text.to_owned();
        };
        let mut open_lines = self.has_open_line.lock().expect("the lock is not poisoned");
        let is_continued = &mut open_lines[usize::from(stream == LogStream::Stderr)];
        // Tools pass a long line in parts, with a note about omitted output between two of them.
        let is_cut = text.len() >= CUT_BYTES_MIN || text.ends_with(tools::OMITTED_SUFFIX);
        let masked_text = if *is_continued || is_cut {
            masker.mask_cut_text(text)
        } else {
            masker.mask_text(text)
        };
        *is_continued = is_cut;
        masked_text.unwrap_or_else(|| text.to_owned())
    }

    fn limiter(&self) -> MutexGuard<'_, LineLimiter> {
        self.limiter.lock().expect("the lock is not poisoned")
    }
}

impl Drop for TaskLog<'_> {
    fn drop(&mut self) {
        for line in self.limiter().take_tail() {
            self.context.shared.config.logs.write_line(&line);
        }
    }
}

impl LogSink for TaskLog<'_> {
    fn output_mask(&self) -> Option<&dyn tools::OutputMask> {
        let masker = self.masker.as_deref()?;
        Some(masker)
    }

    fn write_line(&self, stream: LogStream, text: &str) {
        let step = self.location.step.clone();
        let line = LogLine {
            time: self.context.now(),
            execution: self.context.execution(),
            step: step.unwrap_or_else(|| Name::from("")),
            run: self.location.run,
            iteration: self.location.iteration,
            task: self.task.label.clone(),
            visit: self.location.visit,
            attempt: self.location.attempt,
            stream,
            text: self.mask_line(stream, text),
        };
        let passed = self.limiter().accept_line(line);
        if let Some(line) = passed {
            self.context.shared.config.logs.write_line(&line);
        }
    }
}
