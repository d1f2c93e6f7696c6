//! Runs one `rhai` call in an evaluation process.
//!
//! Input: `code` and `input`. Output: the value of the last expression of the script.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{Outcome, TaskError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult};
use crate::evaluation::{Evaluation, EvaluationProcesses, Language};

/// Default timeout of a script.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The `rhai` tool.
pub(crate) struct RhaiTool {
    processes: Arc<EvaluationProcesses>,
}

impl RhaiTool {
    pub(crate) fn new(processes: Arc<EvaluationProcesses>) -> Self {
        Self { processes }
    }

    async fn evaluate(&self, call: &mut Call, stop: &CancellationToken, log: &dyn LogSink) -> Result<Value, TaskError> {
        let Some(code) = call.text_field("code")? else {
            return Err(call.missing_key_error("code", "set it to the script to run"));
        };
        let timeout = call.timeout.total.unwrap_or(TOTAL_TIMEOUT);
        let evaluation = Evaluation {
            language: Language::Rhai,
            program: code.to_owned(),
            input: Value::Object(std::mem::take(&mut call.input)),
            millis: u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
        };
        let result = self.processes.run(evaluation, stop, log).await;
        result.map_err(|error| with_playbook_line(error, call))
    }
}

#[async_trait]
impl Tool for RhaiTool {
    fn is_pure(&self) -> bool {
        true
    }

    async fn run(&self, mut call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        self.evaluate(&mut call, stop, log).await.map(Outcome::ok)
    }
}

/// Replaces the line in the script by the line in the playbook.
fn with_playbook_line(error: TaskError, call: &Call) -> TaskError {
    let Some(line) = error.details.get("line").and_then(Value::as_u64) else {
        return error;
    };
    let first = u64::from(call.site.code_line.unwrap_or(1));
    error
        .with_detail("file", &*call.site.file)
        .with_detail("line", first + line - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{build_call, expect_error, expect_result, run_tool};
    use model::outcome::ErrorKind;
    use model::task_log::LogStream;
    use serde_json::json;

    fn rhai_tool() -> RhaiTool {
        RhaiTool::new(Arc::new(EvaluationProcesses::new(None)))
    }

    async fn eval_script(code: &str, input: Value) -> Outcome {
        let mut call = build_call("rhai", json!({"code": code}), input);
        call.site.code_line = Some(20);
        call.timeout.total = Some(Duration::from_secs(60));
        run_tool(&rhai_tool(), call).await
    }

    #[tokio::test]
    async fn the_last_expression_is_the_result() {
        let code = "let t = 0; for n in items { t += n; } #{total: t, first: items[0], ok: input.items.len() == 2}";
        let outcome = eval_script(code, json!({"items": [1, 2]})).await;
        assert_eq!(expect_result(outcome), json!({"total": 3, "first": 1, "ok": true}));
        assert_eq!(expect_result(eval_script("let x = 1;", json!({})).await), Value::Null);
    }

    #[tokio::test]
    async fn an_error_names_its_line_in_the_playbook() {
        let outcome = eval_script("let a = 1;\nlet b = a + gone;\nb", json!({})).await;
        assert_eq!(expect_error(&outcome).code, "RHAI_ERROR");
        assert_eq!(expect_error(&outcome).details["line"], 21);
        let syntax = eval_script("let a = ;", json!({})).await;
        assert_eq!(expect_error(&syntax).code, "RHAI_SYNTAX");
        assert_eq!(expect_error(&syntax).details["line"], 20);
    }

    #[tokio::test]
    async fn scripts_are_limited() {
        for (code, expected) in [
            ("loop { }", "LIMIT_SCRIPT"),
            ("fn f(n) { f(n + 1) } f(0)", "LIMIT_SCRIPT"),
            ("let s = \"x\"; loop { s += s; }", "LIMIT_SCRIPT"),
            ("let a = [0]; loop { a.push(a); }", "LIMIT_SCRIPT"),
        ] {
            let outcome = eval_script(code, json!({})).await;
            assert_eq!(expect_error(&outcome).code, expected, "{code}: {outcome:?}");
        }
    }

    #[tokio::test]
    async fn a_timeout_ends_the_script() {
        let mut endless = build_call("rhai", json!({"code": "loop { }"}), json!({}));
        endless.timeout.total = Some(Duration::from_millis(1));
        assert_eq!(expect_error(&run_tool(&rhai_tool(), endless).await).code, "TIMEOUT");
    }

    #[tokio::test]
    async fn scripts_cannot_access_the_system() {
        for code in [
            "import \"/etc/passwd\" as x; 1",
            "eval(\"1\")",
            "open_file(\"/etc/passwd\")",
        ] {
            assert!(!eval_script(code, json!({})).await.is_ok(), "{code}");
        }
    }

    /// A log that cancels the call when it gets a line.
    struct StoppingLog(CancellationToken);

    impl LogSink for StoppingLog {
        fn write_line(&self, stream: LogStream, text: &str) {
            assert_eq!((stream, text), (LogStream::Stdout, "up"));
            self.0.cancel();
        }
    }

    #[tokio::test]
    async fn a_printed_line_is_logged_at_once_and_a_stop_ends_the_script() {
        let code = json!({"code": "print(\"up\"); loop { }"});
        let log = StoppingLog(CancellationToken::new());
        let endless = build_call("rhai", code, json!({}));
        let outcome = rhai_tool().call(endless, log.0.clone(), &log).await;
        assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    }
}
