//! The evaluation process: evaluates one request per line of its standard input, within a memory limit.

use std::io::{BufRead, Write};
use std::process::ExitCode;

use model::outcome::{ErrorKind, TaskError};

use crate::evaluation::request::{Evaluation, EvaluationReply};
use crate::evaluation::{processes, threads};

/// Argument that makes the program run as an evaluation process.
pub const EVALUATION_PROCESS_ARGUMENT: &str = "--evaluation-process";

/// A process that has grown by more than this exits after its reply, because it would not release the memory.
const GROWTH_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Main function of an evaluation process: evaluates requests from standard input until it ends.
pub fn serve_evaluations() -> ExitCode {
    let served = std::thread::Builder::new()
        .name("evaluation".to_owned())
        .stack_size(threads::STACK_BYTES)
        .spawn(serve_requests);
    match served.map(std::thread::JoinHandle::join) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn serve_requests() {
    let initial = data_bytes();
    limit_memory(initial);
    let mut requests = std::io::stdin().lock();
    let mut line = Vec::new();
    while requests.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        let evaluation = serde_json::from_slice::<Evaluation>(&line);
        line = Vec::new();
        let result = match evaluation {
            Ok(evaluation) => evaluation.evaluate(|printed| {
                // If the reader of the replies is gone, this process is killed soon.
                let _ = send_reply(&EvaluationReply::Printed(printed.to_owned()));
            }),
            Err(error) => Err(unreadable_input_error(&error)),
        };
        let reply = match result {
            Ok(value) => EvaluationReply::Value(value),
            Err(error) => EvaluationReply::Error(Box::new(error)),
        };
        if send_reply(&reply).is_err() {
            return;
        }
        drop(reply);
        if data_bytes().saturating_sub(initial) > GROWTH_BYTES_MAX {
            return;
        }
    }
}

fn unreadable_input_error(error: &serde_json::Error) -> TaskError {
    let message = format!("cannot parse the input: {error}; the limit is 128 levels of nesting");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
}

fn send_reply(reply: &EvaluationReply) -> std::io::Result<()> {
    let mut replies = std::io::stdout().lock();
    serde_json::to_writer(&mut replies, reply)?;
    replies.write_all(b"\n")?;
    replies.flush()
}

/// Private memory of this process, including its stacks.
fn data_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Limits the memory of this process. If the system does not support it, only the time limit applies.
fn limit_memory(initial: u64) {
    let maximum = Some(initial + processes::MEMORY_BYTES_MAX);
    let limit = rustix::process::Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = rustix::process::setrlimit(rustix::process::Resource::Data, limit) {
        tracing::warn!(%error, "failed to limit the memory of the evaluation process");
    }
}
