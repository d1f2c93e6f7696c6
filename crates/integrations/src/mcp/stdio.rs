//! MCP over the pipes of a program: one message per line. The program runs for one call.

use std::path::Path;
use std::process::Stdio;

use model::outcome::{ErrorKind, TaskError};
use model::task_log::LogStream;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tools::{GATE_OPEN_LINE, LogSink, OutputCapture, ProcessGroup, ProgramSetup, ProgramSpec, StartError, text_tail};

use crate::mcp::message::{
    EXCHANGE_BYTES_MAX, Incoming, exchange_too_large_error, into_result, protocol_error, reply_message,
};

/// Maximum bytes of a program's output in an error.
const TAIL_BYTES_MAX: usize = 4 * 1024;

/// Session with a program.
pub(crate) struct StdioSession {
    group: ProcessGroup,
    stdin: ChildStdin,
    /// Bytes of an incomplete line.
    buffer: Vec<u8>,
    size: usize,
    stderr: Option<OutputCapture>,
    _own_dir: Option<TempDir>,
}

impl StdioSession {
    /// Starts the program.
    pub(crate) async fn start(command: &[String], setup: ProgramSetup) -> Result<Self, TaskError> {
        let (path, args) = command.split_first().ok_or_else(|| {
            let message = "`command` of an `mcp` task must not be empty";
            TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message)
        })?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let program = ProgramSpec {
            path: Path::new(path),
            args: &args,
            env: &setup.env,
            cwd: &setup.cwd,
            limits: &setup.limits,
            sandbox_rules: &setup.sandbox_rules,
        };
        let started = program.start(Stdio::piped());
        let mut group = started.map_err(|error| start_error(path, &error))?;
        let stdin = group.child.stdin.take();
        let mut line = Self {
            group,
            stdin: stdin.expect("standard input is piped"),
            buffer: Vec::new(),
            size: 0,
            stderr: Some(OutputCapture::new(LogStream::Stderr)),
            _own_dir: setup.own_dir,
        };
        if !setup.limits.is_empty() {
            line.write(GATE_OPEN_LINE).await?;
        }
        Ok(line)
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn request(&mut self, id: u64, message: &Value, log: &dyn LogSink) -> Result<Value, TaskError> {
        self.notify(message).await?;
        loop {
            let line = self.next_line(log).await?;
            match Incoming::parse(&line)? {
                Incoming::Response(response_id, response) if response_id == id => {
                    return into_result(response);
                }
                Incoming::Request(question, method) => {
                    self.notify(&reply_message(&question, &method)).await?;
                }
                Incoming::Notification(method, params) => {
                    Incoming::log_notification(&method, &params, log);
                }
                Incoming::Response(..) | Incoming::Other => {}
            }
        }
    }

    /// Sends a message.
    pub(crate) async fn notify(&mut self, message: &Value) -> Result<(), TaskError> {
        self.write(format!("{message}\n").as_bytes()).await
    }

    /// Ends the program and logs its last output.
    pub(crate) async fn close(mut self, log: &dyn LogSink) {
        drop(self.stdin);
        let _ = self.group.terminate(tools::KILL_GRACE).await;
        self.group.stderr.drain(&mut self.stderr, LogStream::Stderr, log);
        self.stderr.map(|capture| capture.finish(log));
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), TaskError> {
        let written = self.stdin.write_all(bytes).await;
        // If the program has exited, the next read reports the reason.
        if written.is_ok() {
            let _ = self.stdin.flush().await;
        }
        Ok(())
    }

    async fn next_line(&mut self, log: &dyn LogSink) -> Result<Vec<u8>, TaskError> {
        let mut searched = 0;
        loop {
            let end = self.buffer[searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let tail = self.buffer.split_off(searched + end + 1);
                let line = std::mem::replace(&mut self.buffer, tail);
                if line.trim_ascii().is_empty() {
                    searched = 0;
                    continue;
                }
                return Ok(line);
            }
            searched = self.buffer.len();
            if self.size > EXCHANGE_BYTES_MAX {
                return Err(exchange_too_large_error());
            }
            tokio::select! {
                biased;
                () = self.group.stdout.wait_readable() => {
                    let read = self.group.stdout.read_ready(&mut self.buffer);
                    self.size += read;
                }
                () = self.group.stderr.wait_readable() => {
                    if let Some(capture) = &mut self.stderr {
                        self.group.stderr.capture_ready(capture, log);
                    }
                }
                status = self.group.child.wait() => {
                    self.group.stdout.read_remaining(&mut self.buffer);
                    if !self.buffer[searched..].contains(&b'\n') {
                        return Err(self.exit_error(status.ok().and_then(|status| status.code()), log));
                    }
                }
            }
        }
    }

    fn exit_error(&mut self, code: Option<i32>, log: &dyn LogSink) -> TaskError {
        self.group.stderr.drain(&mut self.stderr, LogStream::Stderr, log);
        let printed = self.stderr.take().map(|capture| capture.finish(log));
        let code_text = code.map_or("because of a signal".to_owned(), |code| format!("with code {code}"));
        let message = format!("the server's program exited {code_text} before it responded");
        protocol_error(message)
            .with_detail("exit_code", code)
            .with_detail("stderr", text_tail(&printed.unwrap_or_default(), TAIL_BYTES_MAX))
    }
}

fn start_error(path: &str, error: &StartError) -> TaskError {
    error.host_error().unwrap_or_else(|| {
        let message = format!("cannot start `{path}`: {}", error.cause());
        TaskError::new(ErrorKind::ClientError, "MCP_START", message)
    })
}
