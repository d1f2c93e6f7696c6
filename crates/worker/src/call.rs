//! Calls a tool: turns a rendered task into a call, and the call into an outcome.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::FutureExt;
use model::event::At;
use model::id::Name;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::playbook::Task;
use model::template::{Content, Envelope, Loaded, Need, Scope};
use serde_json::{Map, Value};
use tools::{Afterwards, Call, LogSink, Place, Stream, Tool};

use crate::exhaustion::HostWait;
use crate::hand::{Hand, Trouble};
use crate::keep::{inline_bytes_max, keeper, warn_of_missing};
use crate::logs::{LogLine, LogStream, Printed};
use crate::render::Ready;
use crate::secrets::{CUT_BYTES_MIN, Masks};
use crate::{load, lookup};

/// How long a tool may take to end after it was stopped; longer than the time that tools give to their processes.
const STOP_GRACE: Duration = Duration::from_secs(7);

/// Makes one call and returns its outcome and deferred action. `at` identifies the attempt.
pub(crate) async fn make(
    hand: &Hand,
    tool: &Arc<dyn Tool>,
    task: &Task,
    at: &At,
    prepared: (Ready, &mut Scope),
) -> Result<(Outcome, Afterwards), Trouble> {
    let (ready, scope) = prepared;
    let mut call = Call {
        kind: task.kind.clone(),
        fields: ready.fields,
        pieces: ready.pieces,
        origins: ready.origins,
        input: input(ready.input.as_ref().map(model::template::Data::json)),
        context: Arc::new(|| Value::Object(Map::new())),
        knobs: ready.knobs,
        effect: task.effect,
        timeout: ready.timeout,
        idempotency_key: scope.idempotency_key.clone().unwrap_or_else(|| "".into()),
        attempt: at.attempt,
        place: Place {
            file: hand.prepared.file.clone(),
            code_line: task.code_line,
            command_lines: task.command_lines.clone(),
            base_dir: hand.prepared.base_dir.clone(),
        },
        inline_bytes_max: inline_bytes_max(task),
        keeper: Some(keeper(hand, task, at)),
        access: Some(lookup::access(hand)),
        afterwards: Afterwards::default(),
    };
    if task.kind == "python" {
        load_context(hand, &call, scope).await?;
        let scope = scope.clone();
        call.context = Arc::new(move || context(&scope));
    }
    let log = TaskLog {
        hand,
        at,
        task,
        printed: Mutex::default(),
        masks: ready.masks.or_else(|| hand.masks()),
        cut: Mutex::default(),
    };
    let afterwards = call.afterwards.clone();
    let missing = call.keeper.as_ref().map(|keeper| keeper.missing.clone());
    let outcome = call_until_host_has_room(hand, tool, call, &log).await?;
    let missing = missing.map(|missing| missing.take()).unwrap_or_default();
    warn_of_missing(hand, task, at, &missing);
    Ok((outcome, afterwards))
}

/// Calls the tool; if the host is out of descriptors or processes, waits and calls it again.
async fn call_until_host_has_room(
    hand: &Hand,
    tool: &Arc<dyn Tool>,
    call: Call,
    log: &TaskLog<'_>,
) -> Result<Outcome, Trouble> {
    let mut wait = HostWait::new(hand);
    loop {
        let outcome = guarded(hand, tool, call.clone(), log).await?;
        match outcome.failure() {
            Some(error) if error.code == tools::HOST_EXHAUSTED => {
                wait.for_a_call(&error.message).await?;
            }
            _ => return Ok(outcome),
        }
    }
}

/// Calls the tool. A panic is a failure; a tool that does not end after it was stopped is abandoned.
async fn guarded(
    hand: &Hand,
    tool: &Arc<dyn Tool>,
    call: Call,
    log: &TaskLog<'_>,
) -> Result<Outcome, Trouble> {
    let stopped = hand.lease.stopped();
    let call = AssertUnwindSafe(tool.call(call, stopped.child_token(), log)).catch_unwind();
    let called = if tool.is_pure() {
        call.await
    } else {
        let too_late = async {
            stopped.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
        };
        tokio::select! {
            biased;
            called = call => called,
            () = too_late => return Err(Trouble::Interrupted),
        }
    };
    let outcome = called.unwrap_or_else(|panic| Outcome::error(panicked(panic.as_ref())));
    let is_cancelled = |error: &TaskError| error.kind == ErrorKind::Cancelled;
    if stopped.is_cancelled() && outcome.failure().is_some_and(is_cancelled) {
        // Whether the call had its effect is unknown. Without an outcome, the log records exactly that.
        return Err(Trouble::Interrupted);
    }
    Ok(outcome)
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> TaskError {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    let message = format!("the tool panicked: {}", text.unwrap_or_default());
    TaskError::new(ErrorKind::Unknown, "TOOL_PANIC", message)
}

fn input(value: Option<&Value>) -> Map<String, Value> {
    let map = value.and_then(Value::as_object);
    map.cloned().unwrap_or_default()
}

/// Loads results of steps whose names the python code contains, if it uses `context`: code cannot load them later.
async fn load_context(hand: &Hand, call: &Call, scope: &mut Scope) -> Result<(), Trouble> {
    let code = call.fields.get("code").and_then(Value::as_str);
    let Some(code) = code.filter(|code| code.contains("context")) else {
        return Ok(());
    };
    let steps = scope.steps.clone();
    let named: Vec<_> = steps
        .iter()
        .filter(|(name, _)| code.contains(name.as_str()))
        .map(|(_, envelope)| envelope)
        .collect();
    let outcomes: Vec<_> = named.iter().filter_map(|found| need(found)).collect();
    scope.loaded = load::fetch(hand, &outcomes).await?;
    let bodies: Vec<_> = named
        .iter()
        .filter_map(|found| body_need(found, &scope.loaded))
        .collect();
    scope.loaded = load::fetch(hand, &bodies).await?;
    Ok(())
}

fn need(envelope: &Envelope) -> Option<Need> {
    match &envelope.content {
        Content::Event(seq) => Some(Need::Outcome(*seq)),
        Content::Loop(pointer) => Some(Need::Loop(pointer.clone())),
        Content::Outcome(_) | Content::Error(_) | Content::Parts(_) | Content::Empty => None,
    }
}

fn body_need(envelope: &Envelope, loaded: &Loaded) -> Option<Need> {
    let Content::Event(seq) = &envelope.content else {
        return None;
    };
    match loaded.outcomes.get(seq).map(AsRef::as_ref) {
        Some(Outcome::Ok(success)) => success.reference.clone().map(Need::Body),
        _ => None,
    }
}

/// Builds `context` for python code: workload, loaded step results and the execution ID.
fn context(scope: &Scope) -> Value {
    let mut all = scope
        .workload
        .json()
        .as_object()
        .cloned()
        .unwrap_or_default();
    for (name, envelope) in scope.steps.iter() {
        if let Some(result) = result(envelope, &scope.loaded) {
            all.insert(name.to_string(), result);
        }
    }
    let workload = scope.workload.json().clone();
    all.entry("workload").or_insert(workload);
    if let Some(id) = scope.run.execution_id {
        all.insert("execution_id".to_owned(), id.to_string().into());
    }
    Value::Object(all)
}

fn result(envelope: &Envelope, loaded: &Loaded) -> Option<Value> {
    let outcome = match &envelope.content {
        Content::Outcome(outcome) => outcome,
        Content::Event(seq) => loaded.outcomes.get(seq)?,
        Content::Loop(pointer) => return Some(loaded.loops.get(&pointer.done)?.json().clone()),
        Content::Error(_) | Content::Parts(_) | Content::Empty => return None,
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
    hand: &'a Hand,
    at: &'a At,
    task: &'a Task,
    printed: Mutex<Printed>,
    masks: Option<Arc<Masks>>,
    /// Whether the last line of each stream continues in the next one.
    cut: Mutex<[bool; 2]>,
}

impl TaskLog<'_> {
    fn masked(&self, stream: Stream, text: &str) -> String {
        let Some(masks) = &self.masks else {
            return text.to_owned();
        };
        let mut cut = self.cut.lock().expect("the lock is not poisoned");
        let goes_on = &mut cut[usize::from(stream == Stream::Stderr)];
        // Tools pass a long line in parts, with a note about omitted output between two of them.
        let is_cut = text.len() >= CUT_BYTES_MIN || text.ends_with(tools::LEFT_OUT);
        let masked = if *goes_on || is_cut {
            masks.cut_text(text)
        } else {
            masks.text(text)
        };
        *goes_on = is_cut;
        masked.unwrap_or_else(|| text.to_owned())
    }

    fn printed(&self) -> MutexGuard<'_, Printed> {
        self.printed.lock().expect("the lock is not poisoned")
    }
}

impl Drop for TaskLog<'_> {
    fn drop(&mut self) {
        for line in self.printed().rest() {
            self.hand.shared.config.logs.line(&line);
        }
    }
}

impl LogSink for TaskLog<'_> {
    fn output_mask(&self) -> Option<&dyn tools::OutputMask> {
        let masks = self.masks.as_deref()?;
        Some(masks)
    }

    fn line(&self, stream: Stream, text: &str) {
        let step = self.at.step.clone();
        let line = LogLine {
            time: self.hand.now(),
            execution: self.hand.execution(),
            step: step.unwrap_or_else(|| Name::from("")),
            run: self.at.run,
            iteration: self.at.iteration,
            task: self.task.label.clone(),
            visit: self.at.visit,
            attempt: self.at.attempt,
            stream: match stream {
                Stream::Stdout => LogStream::Stdout,
                Stream::Stderr => LogStream::Stderr,
            },
            text: self.masked(stream, text),
        };
        let passed = self.printed().pass(line);
        if let Some(line) = passed {
            self.hand.shared.config.logs.line(&line);
        }
    }
}
