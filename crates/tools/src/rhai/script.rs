//! Evaluates a script. Every key of its input is a constant; the value of the last expression is the result.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ::rhai::module_resolvers::DummyModuleResolver;
use ::rhai::serde::{from_dynamic, to_dynamic};
use ::rhai::{Dynamic, Engine, EvalAltResult, Scope};
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;

use crate::call::timeout_error;
use crate::evaluation::{Language, ResultBudget};

const OPERATIONS_MAX: u64 = 100_000_000;
const CALL_LEVELS_MAX: usize = 64;
const EXPRESSION_DEPTH_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;
const ITEMS_MAX: usize = 1_000_000;
const PRINTED_LINES_MAX: usize = 10_000;
const PRINTED_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Runs a script. Errors have their position in the script under `line` and `column`.
pub(crate) fn run_script(
    code: &str,
    input: Value,
    limit: Duration,
    print: impl Fn(&str) + Send + Sync + 'static,
) -> Result<Value, TaskError> {
    let mut scope = Scope::new();
    if let Value::Object(entries) = &input {
        for (name, value) in entries {
            scope.push_constant_dynamic(name.as_str(), to_script_value(value)?);
        }
    }
    scope.push_constant_dynamic("input", to_script_value(&input)?);
    drop(input);
    let engine = build_engine(Instant::now() + limit, print);
    let value: Dynamic = engine
        .eval_with_scope(&mut scope, code)
        .map_err(|error| task_error(&error, limit))?;
    if value.is_unit() {
        return Ok(Value::Null);
    }
    let value: Value = from_dynamic(&value).map_err(|error| {
        let message = format!("cannot convert the result of the script to JSON: {error}");
        TaskError::new(ErrorKind::Schema, "RHAI_RESULT", message)
    })?;
    ResultBudget::new(Language::Rhai).charge_all(&value, 0)?;
    Ok(value)
}

fn build_engine(deadline: Instant, print: impl Fn(&str) + Send + Sync + 'static) -> Engine {
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
    engine.on_progress(move |count| {
        let is_over = count.is_multiple_of(1024) && Instant::now() > deadline;
        is_over.then_some(Dynamic::UNIT)
    });
    let printer = std::sync::Arc::new(LimitedPrinter {
        print,
        lines: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
    });
    let debugger = printer.clone();
    engine.on_print(move |line| printer.print(line));
    engine.on_debug(move |line, _, _| debugger.print(line));
    engine
}

/// Forwards printed lines up to a limit.
struct LimitedPrinter<P> {
    print: P,
    lines: AtomicUsize,
    bytes: AtomicUsize,
}

impl<P: Fn(&str)> LimitedPrinter<P> {
    fn print(&self, line: &str) {
        let lines = self.lines.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(line.len(), Ordering::Relaxed);
        if lines < PRINTED_LINES_MAX && bytes.saturating_add(line.len()) <= PRINTED_BYTES_MAX {
            (self.print)(line);
        }
    }
}

fn to_script_value(value: &Value) -> Result<Dynamic, TaskError> {
    to_dynamic(value).map_err(|error| {
        let message = format!("cannot pass an input to the script: {error}");
        TaskError::new(ErrorKind::Schema, "RHAI_INPUT", message)
    })
}

fn task_error(error: &EvalAltResult, limit: Duration) -> TaskError {
    let cause = innermost_error(error);
    let position = cause.position();
    let task_error = match cause {
        EvalAltResult::ErrorTerminated(..) => timeout_error(limit),
        EvalAltResult::ErrorParsing(what, _) => TaskError::new(ErrorKind::Parse, "RHAI_SYNTAX", what.to_string()),
        EvalAltResult::ErrorTooManyOperations(_)
        | EvalAltResult::ErrorTooManyVariables(_)
        | EvalAltResult::ErrorTooManyModules(_)
        | EvalAltResult::ErrorStackOverflow(_)
        | EvalAltResult::ErrorDataTooLarge(..) => {
            TaskError::new(ErrorKind::Transform, "LIMIT_SCRIPT", error.to_string())
        }
        _ => TaskError::new(ErrorKind::Transform, "RHAI_ERROR", error.to_string()),
    };
    match (position.line(), position.position()) {
        (Some(line), Some(column)) => task_error.with_detail("line", line).with_detail("column", column),
        (Some(line), None) => task_error.with_detail("line", line),
        (None, _) => task_error,
    }
}

/// Innermost error of nested function calls.
fn innermost_error(error: &EvalAltResult) -> &EvalAltResult {
    match error {
        EvalAltResult::ErrorInFunctionCall(_, _, inner, _) | EvalAltResult::ErrorInModule(_, inner, _) => {
            innermost_error(inner)
        }
        other => other,
    }
}
