//! Converts the reply of an interpreter, or its failure, into an outcome.

use std::process::ExitStatus;

use model::outcome::{ErrorKind, Facets, Outcome, TaskError};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::call::{cancelled_error, timeout_error};
use crate::isolation::limit_reached;
use crate::python::process::RunnerReply;

/// Response of the runner.
#[derive(Deserialize)]
pub(crate) struct RunnerAnswer {
    #[serde(default)]
    result: Value,
    error: Option<PythonException>,
    /// Whether the interpreter must be replaced.
    #[serde(default)]
    pub(crate) replace: bool,
    /// Paths of numbers that JSON cannot represent.
    #[serde(default)]
    lost: Vec<String>,
}

/// A Python exception.
#[derive(Deserialize)]
struct PythonException {
    #[serde(rename = "type")]
    type_: String,
    bases: Vec<String>,
    message: String,
    traceback: String,
    line: Option<u32>,
    exit_code: Option<i64>,
    #[serde(default)]
    schema: bool,
    retryable: Option<bool>,
}

/// Outcome of a reply, and whether the interpreter can be reused.
pub(crate) fn reply_outcome(reply: RunnerReply, file: &str) -> (Outcome, bool) {
    let error = match reply {
        RunnerReply::Responded(line) => match serde_json::from_slice::<RunnerAnswer>(&line) {
            Ok(answer) => {
                let reusable = !answer.replace;
                return (answer.into_outcome(file), reusable);
            }
            Err(error) => {
                let message = format!("cannot parse the result as JSON: {error}");
                return (schema_outcome(message), true);
            }
        },
        RunnerReply::Died(status) => exit_error(status),
        RunnerReply::TooLarge(limit) => TaskError::new(
            ErrorKind::Schema,
            "LIMIT_RESULT",
            format!("result exceeds the limit of {limit} bytes; write it to a file and return its path"),
        ),
        RunnerReply::TimedOut(limit) => timeout_error(limit),
        RunnerReply::Stopped => cancelled_error(),
    };
    (Outcome::error(error), false)
}

impl RunnerAnswer {
    fn into_outcome(self, file: &str) -> Outcome {
        let Some(raised) = self.error else {
            let mut outcome = Outcome::ok(self.result);
            if !self.lost.is_empty() {
                let meta = outcome.meta_mut();
                meta.insert("not_finite_as_null".to_owned(), json!(self.lost));
            }
            return outcome;
        };
        if raised.schema {
            return schema_outcome(raised.message);
        }
        raised.into_outcome(file)
    }
}

impl PythonException {
    fn into_outcome(self, file: &str) -> Outcome {
        let kind = self.error_kind();
        let message = if self.message.is_empty() {
            self.type_.clone()
        } else {
            format!("{}: {}", self.type_, self.message)
        };
        let mut error = TaskError::new(kind, exception_code(&self.type_), message);
        if let Some(retryable) = self.retryable {
            error.retryable = retryable;
        }
        if let Some(line) = self.line {
            error = error.with_detail("file", file).with_detail("line", line);
        }
        if let Some(exit_code) = self.exit_code {
            error = error.with_detail("exit_code", exit_code);
        }
        let py = json!({
            "exception_type": self.type_,
            "traceback": self.traceback,
            "line": self.line,
        });
        Outcome::error(error).with_facets(Facets {
            py: Some(py),
            ..Facets::default()
        })
    }

    fn error_kind(&self) -> ErrorKind {
        let is = |name: &str| self.bases.iter().any(|base| base == name);
        if is("TimeoutError") || is("Timeout") {
            ErrorKind::Timeout
        } else if is("ConnectionError") || is("gaierror") {
            ErrorKind::Connection
        } else if is("SyntaxError") {
            ErrorKind::Parse
        } else {
            ErrorKind::Transform
        }
    }
}

/// `ValueError` → `PYTHON_VALUE_ERROR`, `OSError` → `PYTHON_OS_ERROR`.
fn exception_code(exception: &str) -> String {
    let letters: Vec<char> = exception.chars().collect();
    let mut code = String::from("PYTHON_");
    for (index, letter) in letters.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| letters[index]);
        let after_lower = before.is_some_and(|c| c.is_ascii_lowercase());
        let before_lower = letters.get(index + 1).is_some_and(char::is_ascii_lowercase);
        let begins = letter.is_ascii_uppercase() && index > 0 && (after_lower || before_lower);
        if begins && !code.ends_with('_') {
            code.push('_');
        }
        code.push(if letter.is_ascii_alphanumeric() {
            letter.to_ascii_uppercase()
        } else {
            '_'
        });
    }
    code
}

fn schema_outcome(message: String) -> Outcome {
    Outcome::error(TaskError::new(ErrorKind::Schema, "PYTHON_RESULT", message))
}

fn exit_error(status: Option<ExitStatus>) -> TaskError {
    use std::os::unix::process::ExitStatusExt;
    let signal = status.and_then(|status| status.signal());
    let exit_code = status.and_then(|status| status.code());
    match (signal, exit_code) {
        (Some(9), _) => TaskError::new(
            ErrorKind::Unknown,
            "PYTHON_KILLED",
            "interpreter was killed by signal 9, probably because the machine ran out of memory",
        )
        .with_detail("signal", 9),
        (Some(signal), _) => TaskError::new(
            ErrorKind::Unknown,
            "PYTHON_CRASHED",
            match limit_reached(signal) {
                Some(limit) => format!("interpreter was killed: {limit}"),
                None => format!("interpreter was killed by signal {signal}"),
            },
        )
        .with_detail("signal", signal),
        (None, Some(code)) => TaskError::new(
            ErrorKind::Unknown,
            "PYTHON_EXITED",
            format!("interpreter exited with code {code} before it returned a result"),
        )
        .with_detail("exit_code", code),
        (None, None) => TaskError::new(
            ErrorKind::Unknown,
            "PYTHON_EXITED",
            "interpreter closed its connection before it returned a result",
        ),
    }
}
