//! `rhai`: a script in a sandbox. It sees its inputs and nothing else, and every way to run away has a bound.
//!
//! Enters: `code` and `input`, whose keys are constants of the script. Leaves: the value of its last expression.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::rhai::module_resolvers::DummyModuleResolver;
use ::rhai::serde::{from_dynamic, to_dynamic};
use ::rhai::{Dynamic, Engine, EvalAltResult, Position, Scope};
use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Stream, Tool, cancelled, timed_out};

/// How long a script may run where the task does not say.
const TOTAL: Duration = Duration::from_secs(30);
const OPERATIONS_MAX: u64 = 100_000_000;
const CALL_LEVELS_MAX: usize = 64;
const EXPRESSION_DEPTH_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;
const ITEMS_MAX: usize = 1_000_000;
const PRINTED_LINES_MAX: usize = 10_000;

/// The rhai tool.
pub(crate) struct Rhai;

/// Lines a script printed.
type Printed = Arc<Mutex<Vec<String>>>;

/// A script, and what bounds it.
struct Script {
    code: String,
    input: Map<String, Value>,
    deadline: Instant,
    limit: Duration,
    stop: CancellationToken,
    printed: Printed,
}

#[async_trait]
impl Tool for Rhai {
    fn is_pure(&self) -> bool {
        true
    }

    async fn call(&self, mut call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        let code = match call.text("code") {
            Ok(Some(code)) => code.to_owned(),
            Ok(None) => return Outcome::error(call.missing("code", "write the script")),
            Err(error) => return Outcome::error(error),
        };
        let limit = call.timeout.total.unwrap_or(TOTAL);
        let printed = Printed::default();
        let script = Script {
            code,
            input: std::mem::take(&mut call.input),
            deadline: Instant::now() + limit,
            limit,
            stop,
            printed: printed.clone(),
        };
        let done = tokio::task::spawn_blocking(move || script.run()).await;
        for line in printed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            log.line(Stream::Stdout, line);
        }
        match done {
            Ok(Ok(value)) => Outcome::ok(value),
            Ok(Err(failure)) => Outcome::error(failure.located(&call)),
            Err(error) => {
                let message = format!("the script broke its interpreter: {error}");
                Outcome::error(TaskError::new(ErrorKind::Transform, "RHAI_ERROR", message))
            }
        }
    }
}

/// An error and the place in the script it came from.
struct Located {
    error: TaskError,
    position: Position,
}

impl Located {
    /// The error with its place in the playbook.
    fn located(self, call: &Call) -> TaskError {
        let Some(line) = self.position.line().and_then(|l| u32::try_from(l).ok()) else {
            return self.error;
        };
        let line = call.place.code_line.unwrap_or(1) + line - 1;
        let error = self
            .error
            .with("file", &*call.place.file)
            .with("line", line);
        match self.position.position() {
            Some(column) => error.with("column", column),
            None => error,
        }
    }
}

impl Script {
    fn run(self) -> Result<Value, Located> {
        let mut scope = Scope::new();
        for (name, value) in &self.input {
            scope.push_constant_dynamic(name.as_str(), dynamic(value)?);
        }
        let whole = dynamic(&Value::Object(self.input.clone()))?;
        scope.push_constant_dynamic("input", whole);
        let engine = self.engine();
        let value: Dynamic = engine
            .eval_with_scope(&mut scope, &self.code)
            .map_err(|error| self.sort(&error))?;
        if value.is_unit() {
            return Ok(Value::Null);
        }
        from_dynamic(&value).map_err(|error| {
            let message = format!("the result has no JSON form: {error}");
            place(TaskError::new(ErrorKind::Schema, "RHAI_RESULT", message))
        })
    }

    fn engine(&self) -> Engine {
        let mut engine = Engine::new();
        engine
            .set_max_operations(OPERATIONS_MAX)
            .set_max_call_levels(CALL_LEVELS_MAX)
            .set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX)
            .set_max_string_size(TEXT_BYTES_MAX)
            .set_max_array_size(ITEMS_MAX)
            .set_max_map_size(ITEMS_MAX)
            .set_module_resolver(DummyModuleResolver::new())
            .disable_symbol("eval");
        let (deadline, stop) = (self.deadline, self.stop.clone());
        engine.on_progress(move |count| {
            let is_due = count.is_multiple_of(1024);
            let is_over = is_due && (stop.is_cancelled() || Instant::now() > deadline);
            is_over.then_some(Dynamic::UNIT)
        });
        let printed = self.printed.clone();
        engine.on_print(move |line| keep(&printed, line));
        let printed = self.printed.clone();
        engine.on_debug(move |line, _, _| keep(&printed, line));
        engine
    }

    fn sort(&self, error: &EvalAltResult) -> Located {
        let position = innermost(error).position();
        let error = match innermost(error) {
            EvalAltResult::ErrorTerminated(..) if self.stop.is_cancelled() => cancelled(),
            EvalAltResult::ErrorTerminated(..) => timed_out(self.limit),
            EvalAltResult::ErrorParsing(what, _) => {
                TaskError::new(ErrorKind::Parse, "RHAI_SYNTAX", what.to_string())
            }
            EvalAltResult::ErrorTooManyOperations(_)
            | EvalAltResult::ErrorTooManyVariables(_)
            | EvalAltResult::ErrorTooManyModules(_)
            | EvalAltResult::ErrorStackOverflow(_)
            | EvalAltResult::ErrorDataTooLarge(..) => {
                TaskError::new(ErrorKind::Transform, "LIMIT_SCRIPT", error.to_string())
            }
            _ => TaskError::new(ErrorKind::Transform, "RHAI_ERROR", error.to_string()),
        };
        Located { error, position }
    }
}

/// The error inside the calls it went through.
fn innermost(error: &EvalAltResult) -> &EvalAltResult {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _)
        | EvalAltResult::ErrorInModule(_, inner, _) => innermost(inner),
        other => other,
    }
}

fn keep(printed: &Printed, line: &str) {
    let mut lines = printed.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() < PRINTED_LINES_MAX {
        lines.push(line.to_owned());
    }
}

fn dynamic(value: &Value) -> Result<Dynamic, Located> {
    to_dynamic(value).map_err(|error| {
        let message = format!("an input cannot be given to the script: {error}");
        place(TaskError::new(ErrorKind::Schema, "RHAI_INPUT", message))
    })
}

fn place(error: TaskError) -> Located {
    Located {
        error,
        position: Position::NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Lines, call, error, result, run};
    use serde_json::json;

    async fn eval(code: &str, input: Value) -> Outcome {
        let mut call = call("rhai", json!({"code": code}), input);
        call.place.code_line = Some(20);
        call.timeout.total = Some(Duration::from_secs(2));
        run(&Rhai, call).await
    }

    #[tokio::test]
    async fn the_last_expression_is_the_result() {
        let code = "let t = 0; for n in items { t += n; } #{total: t, first: items[0], ok: input.items.len() == 2}";
        let outcome = eval(code, json!({"items": [1, 2]})).await;
        assert_eq!(result(outcome), json!({"total": 3, "first": 1, "ok": true}));
        assert_eq!(result(eval("let x = 1;", json!({})).await), Value::Null);
    }

    #[tokio::test]
    async fn an_error_names_its_line_in_the_playbook() {
        let outcome = eval("let a = 1;\nlet b = a + gone;\nb", json!({})).await;
        assert_eq!(error(&outcome).code, "RHAI_ERROR");
        assert_eq!(error(&outcome).details["line"], 21);
        let syntax = eval("let a = ;", json!({})).await;
        assert_eq!(error(&syntax).code, "RHAI_SYNTAX");
        assert_eq!(error(&syntax).details["line"], 20);
    }

    #[tokio::test]
    async fn nothing_runs_away() {
        for (code, wanted) in [
            ("loop { }", "LIMIT_SCRIPT"),
            ("fn f(n) { f(n + 1) } f(0)", "LIMIT_SCRIPT"),
            ("let s = \"x\"; loop { s += s; }", "LIMIT_SCRIPT"),
            ("let a = [0]; loop { a.push(a); }", "LIMIT_SCRIPT"),
        ] {
            let outcome = eval(code, json!({})).await;
            assert_eq!(error(&outcome).code, wanted, "{code}: {outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_timeout_ends_the_script() {
        let mut endless = call("rhai", json!({"code": "loop { }"}), json!({}));
        endless.timeout.total = Some(Duration::from_millis(1));
        assert_eq!(error(&run(&Rhai, endless).await).code, "TIMEOUT");
    }

    #[tokio::test]
    async fn there_is_no_way_out() {
        for code in [
            "import \"/etc/passwd\" as x; 1",
            "eval(\"1\")",
            "open_file(\"/etc/passwd\")",
        ] {
            assert!(!eval(code, json!({})).await.is_ok(), "{code}");
        }
    }

    #[tokio::test]
    async fn a_stop_ends_the_script_and_prints_are_kept() {
        let stop = CancellationToken::new();
        stop.cancel();
        let lines = Lines::default();
        let endless = call(
            "rhai",
            json!({"code": "print(\"up\"); loop { }"}),
            json!({}),
        );
        let outcome = Rhai.call(endless, stop, &lines).await;
        assert_eq!(error(&outcome).kind, ErrorKind::Cancelled);
        assert_eq!(lines.of(Stream::Stdout), ["up"]);
    }
}
