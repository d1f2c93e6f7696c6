//! Runs one `transform` call: `jq` or `select` over the input.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult};
use crate::evaluation::{Evaluation, EvaluationProcesses, Language};
use crate::transform::select;

/// Default timeout of a program.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The `transform` tool.
pub(crate) struct TransformTool {
    processes: Arc<EvaluationProcesses>,
}

impl TransformTool {
    pub(crate) fn new(processes: Arc<EvaluationProcesses>) -> Self {
        Self { processes }
    }

    async fn evaluate(&self, mut call: Call, stop: &CancellationToken, log: &dyn LogSink) -> Result<Value, TaskError> {
        let input = Value::Object(std::mem::take(&mut call.input));
        match (call.text_field("jq")?, call.field("select")) {
            (Some(program), None) => {
                let limit = call.timeout.total.unwrap_or(TOTAL_TIMEOUT);
                let evaluation = Evaluation {
                    language: Language::Jq,
                    program: program.to_owned(),
                    input,
                    millis: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
                };
                self.processes.run(evaluation, stop, log).await
            }
            (None, Some(what)) => select::select_paths(what, &input),
            (None, None) => Err(call.missing_key_error("jq", "set it to a jq program, or set `select` to paths")),
            (Some(_), Some(_)) => Err(TaskError::new(
                ErrorKind::Schema,
                "TOOL_INPUT",
                "`jq` and `select` are mutually exclusive in a `transform` task",
            )),
        }
    }
}

#[async_trait]
impl Tool for TransformTool {
    fn is_pure(&self) -> bool {
        true
    }

    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        self.evaluate(call, stop, log).await.map(Outcome::ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build_call, expect_error, expect_result, run_tool};
    use serde_json::json;

    fn transform_tool() -> TransformTool {
        TransformTool::new(Arc::new(EvaluationProcesses::new(None)))
    }

    async fn run_jq_call(program: &str, input: Value) -> Outcome {
        run_tool(
            &transform_tool(),
            build_call("transform", json!({"jq": program}), input),
        )
        .await
    }

    #[tokio::test]
    async fn a_program_runs_over_the_whole_input() {
        let input = json!({"data": [{"n": 2}, {"n": 1}], "k": "x"});
        let sorted = run_jq_call(".data | map(.n) | sort", input.clone()).await;
        assert_eq!(expect_result(sorted), json!([1, 2]));
        assert_eq!(
            expect_result(run_jq_call(".data[].n", input.clone()).await),
            json!([2, 1])
        );
        assert_eq!(expect_result(run_jq_call(".k", input.clone()).await), json!("x"));
        assert_eq!(expect_result(run_jq_call("empty", input.clone()).await), Value::Null);
        let outcome = run_jq_call("{k, total: ([.data[].n] | add), half: 1.5}", input).await;
        assert_eq!(expect_result(outcome), json!({"k": "x", "total": 3, "half": 1.5}));
    }

    #[tokio::test]
    async fn wide_integers_stay_exact() {
        let outcome = run_jq_call(".a", json!({"a": u64::MAX})).await;
        assert_eq!(expect_result(outcome), json!(u64::MAX));
    }

    #[tokio::test]
    async fn a_syntax_error_has_its_position() {
        for program in [".a |", "nope(1)", ".a[", "\"abc"] {
            let outcome = run_jq_call(program, json!({})).await;
            assert_eq!(expect_error(&outcome).code, "JQ_SYNTAX", "{program}");
            assert!(
                expect_error(&outcome).message.len() > 40,
                "{:?}",
                expect_error(&outcome)
            );
        }
    }

    #[tokio::test]
    async fn a_program_that_fails_is_an_error() {
        let outcome = run_jq_call(".a + 1", json!({"a": "x"})).await;
        assert_eq!(expect_error(&outcome).code, "JQ_ERROR");
        let endless = run_jq_call("repeat(1)", json!({})).await;
        assert_eq!(expect_error(&endless).code, "LIMIT_TRANSFORM");
    }

    #[tokio::test]
    async fn paths_are_selected() {
        let fields = json!({"select": {"x": "a.b"}});
        let outcome = run_tool(
            &transform_tool(),
            build_call("transform", fields, json!({"a": {"b": 1}})),
        )
        .await;
        assert_eq!(expect_result(outcome), json!({"x": 1}));
        let neither = run_tool(&transform_tool(), build_call("transform", json!({}), json!({}))).await;
        assert_eq!(expect_error(&neither).code, "TOOL_INPUT");
    }
}
