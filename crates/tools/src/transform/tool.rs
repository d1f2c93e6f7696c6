//! Runs one `transform` call: `jq` or `select` over the input.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool};
use crate::evaluation::{Evaluation, EvaluationProcesses, Language};
use crate::transform::select;

/// Default timeout of a program.
const TOTAL: Duration = Duration::from_secs(30);

/// The `transform` tool.
pub(crate) struct Transform {
    processes: Arc<EvaluationProcesses>,
}

impl Transform {
    pub(crate) fn new(processes: Arc<EvaluationProcesses>) -> Self {
        Self { processes }
    }

    async fn run(
        &self,
        mut call: Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        let input = Value::Object(std::mem::take(&mut call.input));
        match (call.text("jq")?, call.field("select")) {
            (Some(program), None) => {
                let limit = call.timeout.total.unwrap_or(TOTAL);
                let evaluation = Evaluation {
                    language: Language::Jq,
                    program: program.to_owned(),
                    input,
                    millis: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                };
                self.processes.run(evaluation, stop, log).await
            }
            (None, Some(what)) => select::select(what, &input),
            (None, None) => {
                Err(call.missing("jq", "set it to a jq program, or set `select` to paths"))
            }
            (Some(_), Some(_)) => Err(TaskError::new(
                ErrorKind::Schema,
                "TOOL_INPUT",
                "`jq` and `select` are mutually exclusive in a `transform` task",
            )),
        }
    }
}

#[async_trait]
impl Tool for Transform {
    fn is_pure(&self) -> bool {
        true
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        match self.run(call, &stop, log).await {
            Ok(value) => Outcome::ok(value),
            Err(error) => Outcome::error(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call, error, result, run};
    use serde_json::json;

    fn transform() -> Transform {
        Transform::new(Arc::new(EvaluationProcesses::new(None)))
    }

    async fn jq(program: &str, input: Value) -> Outcome {
        run(
            &transform(),
            call("transform", json!({"jq": program}), input),
        )
        .await
    }

    #[tokio::test]
    async fn a_program_runs_over_the_whole_input() {
        let input = json!({"data": [{"n": 2}, {"n": 1}], "k": "x"});
        let sorted = jq(".data | map(.n) | sort", input.clone()).await;
        assert_eq!(result(sorted), json!([1, 2]));
        assert_eq!(result(jq(".data[].n", input.clone()).await), json!([2, 1]));
        assert_eq!(result(jq(".k", input.clone()).await), json!("x"));
        assert_eq!(result(jq("empty", input.clone()).await), Value::Null);
        let made = jq("{k, total: ([.data[].n] | add), half: 1.5}", input).await;
        assert_eq!(result(made), json!({"k": "x", "total": 3, "half": 1.5}));
    }

    #[tokio::test]
    async fn wide_integers_stay_exact() {
        let outcome = jq(".a", json!({"a": u64::MAX})).await;
        assert_eq!(result(outcome), json!(u64::MAX));
    }

    #[tokio::test]
    async fn a_program_that_cannot_be_read_says_where() {
        for program in [".a |", "nope(1)", ".a[", "\"abc"] {
            let outcome = jq(program, json!({})).await;
            assert_eq!(error(&outcome).code, "JQ_SYNTAX", "{program}");
            assert!(error(&outcome).message.len() > 40, "{:?}", error(&outcome));
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_an_error() {
        let outcome = jq(".a + 1", json!({"a": "x"})).await;
        assert_eq!(error(&outcome).code, "JQ_ERROR");
        let endless = jq("repeat(1)", json!({})).await;
        assert_eq!(error(&endless).code, "LIMIT_TRANSFORM");
    }

    #[tokio::test]
    async fn paths_are_selected() {
        let fields = json!({"select": {"x": "a.b"}});
        let outcome = run(
            &transform(),
            call("transform", fields, json!({"a": {"b": 1}})),
        )
        .await;
        assert_eq!(result(outcome), json!({"x": 1}));
        let neither = run(&transform(), call("transform", json!({}), json!({}))).await;
        assert_eq!(error(&neither).code, "TOOL_INPUT");
    }
}
