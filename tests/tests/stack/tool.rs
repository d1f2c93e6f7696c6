//! The scripted tool: every kind answers from the case's script.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use model::id::ExecutionId;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tests::conformance::Script;
use tests::world::{AttemptQuery, OutcomeSource, TimedOutcome};
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Registry, Tool, ToolResult};

/// Kinds that a case may use; `wait` and `playbook` wait outside of tools.
const KINDS: [&str; 9] = [
    "artifact",
    "noop",
    "http",
    "python",
    "shell",
    "rhai",
    "transform",
    "sqlite",
    "postgres",
];

struct CaseTool {
    script: Arc<Mutex<Script>>,
    is_pure: bool,
}

/// Where a call stands, read back from its idempotency key.
struct CallLocation {
    execution: ExecutionId,
    step: String,
    task: String,
    iteration: Option<u64>,
    visit: u32,
}

/// A registry in which every kind answers from the script.
pub(crate) fn registry(script: &Arc<Mutex<Script>>) -> Registry {
    let mut registry = Registry::empty();
    // A pure call takes no time worth speaking of; where the script says otherwise it is not one.
    let is_quick = script
        .lock()
        .expect("answering does not panic")
        .is_immediate();
    for kind in KINDS {
        let tool = CaseTool {
            script: script.clone(),
            is_pure: is_quick && matches!(kind, "noop" | "rhai" | "transform"),
        };
        registry.insert(kind, Arc::new(tool));
    }
    registry
}

#[async_trait]
impl Tool for CaseTool {
    fn is_pure(&self) -> bool {
        self.is_pure
    }

    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        let answer = self.scripted_outcome(&call);
        tokio::select! {
            () = tokio::time::sleep(answer.duration) => Ok(answer.outcome),
            () = stop.cancelled() => Err(TaskError::new(
                ErrorKind::Cancelled,
                "CANCELLED",
                "the call was stopped before it ended",
            )),
        }
    }
}

impl CaseTool {
    fn scripted_outcome(&self, call: &Call) -> TimedOutcome {
        let spot = CallLocation::parse(&call.idempotency_key).expect("the key names the task run");
        let input = Value::Object(call.input.clone());
        let input = if call.input.is_empty() {
            Value::Null
        } else {
            input
        };
        let asked = AttemptQuery {
            execution: spot.execution,
            step: &spot.step,
            task: &spot.task,
            kind: call.kind.as_str(),
            iteration: spot.iteration,
            visit: spot.visit,
            attempt: call.attempt,
            input: &input,
            fields: &call.fields,
            timeout: &timeout_json(&call.timeout),
        };
        let mut script = self.script.lock().expect("answering does not panic");
        script.answer_attempt(&asked).unwrap_or_else(|| {
            let result = call.fields.get("result").cloned().unwrap_or_default();
            TimedOutcome::immediate(Outcome::ok(result))
        })
    }
}

/// The parts of a timeout that are given, in seconds.
fn timeout_json(timeout: &tools::Timeout) -> Value {
    let parts = [
        ("total", timeout.total),
        ("connect", timeout.connect),
        ("read", timeout.read),
    ];
    let given = parts.iter().filter_map(|(name, span)| {
        let seconds = span.as_ref()?.as_secs_f64();
        Some(((*name).to_owned(), seconds.into()))
    });
    Value::Object(given.collect())
}

/// The two methods called `answer` of a script, told apart.
trait AnswerAttempt {
    fn answer_attempt(&mut self, query: &AttemptQuery<'_>) -> Option<TimedOutcome>;
}

impl AnswerAttempt for Script {
    fn answer_attempt(&mut self, asked: &AttemptQuery<'_>) -> Option<TimedOutcome> {
        OutcomeSource::next_outcome(self, asked)
    }
}

impl CallLocation {
    /// Reads `execution/step:run/[iteration/]task:visit`.
    fn parse(key: &str) -> Option<Self> {
        let parts: Vec<&str> = key.split('/').collect();
        let (execution, run, iteration, task) = match parts[..] {
            [execution, run, task] => (execution, run, None, task),
            [execution, run, iteration, task] => {
                (execution, run, Some(iteration.parse().ok()?), task)
            }
            _ => return None,
        };
        let (task, visit) = task.rsplit_once(':')?;
        Some(Self {
            execution: execution.parse().ok()?,
            step: run.rsplit_once(':')?.0.to_owned(),
            task: task.to_owned(),
            iteration,
            visit: visit.parse().ok()?,
        })
    }
}
