//! Output streams: data goes to standard output, everything else to standard error.
//!
//! If the reader of standard output closes it (`noetl events last | head`), output stops and the process continues.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::args::{ColorWhen, OutputFormat};
use crate::cli_error::{CliError, without_userinfo};
use crate::config::Environment;
use crate::terminal_style::TerminalStyle;

/// The two output streams, and what each can display.
#[derive(Debug)]
pub(crate) struct Output {
    /// Output format of data.
    pub(crate) format: OutputFormat,
    /// What standard output can display.
    pub(crate) stdout: TerminalStyle,
    /// What standard error can display.
    pub(crate) stderr: TerminalStyle,
    is_quiet: bool,
    data: io::Stdout,
    messages: io::Stderr,
    is_closed: AtomicBool,
    has_failed: AtomicBool,
}

impl Output {
    /// Creates the streams from flags and environment.
    pub(crate) fn new(format: OutputFormat, color: ColorWhen, is_quiet: bool, environment: &Environment) -> Self {
        let style = |is_terminal: bool, columns: Option<usize>| TerminalStyle {
            has_color: match color {
                ColorWhen::Always => true,
                ColorWhen::Never => false,
                ColorWhen::Auto => is_terminal && !environment.forbids_color && !environment.is_ci,
            },
            has_unicode: environment.has_unicode,
            columns: is_terminal.then_some(columns).flatten(),
            is_live: is_terminal && !environment.is_ci,
        };
        Self {
            format,
            stdout: style(io::stdout().is_terminal(), terminal_columns(io::stdout())),
            stderr: style(io::stderr().is_terminal(), terminal_columns(io::stderr())),
            is_quiet,
            data: io::stdout(),
            messages: io::stderr(),
            is_closed: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    /// Prints one or more lines of data.
    pub(crate) fn print_data(&self, text: &str) {
        if self.is_closed() {
            return;
        }
        let mut stdout = self.data.lock();
        let result = stdout
            .write_all(text.as_bytes())
            .and_then(|()| {
                if text.ends_with('\n') {
                    Ok(())
                } else {
                    stdout.write_all(b"\n")
                }
            })
            .and_then(|()| stdout.flush());
        drop(stdout);
        self.record_write_result(result);
    }

    /// Records a failed write; a closed pipe is not an error.
    fn record_write_result(&self, result: io::Result<()>) {
        if let Err(error) = result {
            self.is_closed.store(true, Ordering::Relaxed);
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.has_failed.store(true, Ordering::Relaxed);
                self.error(&format!("cannot write to standard output: {error}"));
            }
        }
    }

    /// Writes raw bytes of data.
    pub(crate) fn write_bytes(&self, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        let mut stdout = self.data.lock();
        let result = stdout.write_all(bytes).and_then(|()| stdout.flush());
        drop(stdout);
        self.record_write_result(result);
    }

    /// Prints a value as indented JSON, or on one line for `ndjson`.
    pub(crate) fn print_json<T: Serialize + ?Sized>(&self, value: &T) {
        let text = match self.format {
            OutputFormat::Ndjson => serde_json::to_string(value),
            OutputFormat::Json | OutputFormat::Table => serde_json::to_string_pretty(value),
        };
        self.print_data(&text.expect("plain data serializes to JSON"));
    }

    /// Prints records: an array for `json`, one per line for `ndjson`.
    pub(crate) fn print_records<T: Serialize>(&self, records: &[T]) {
        match self.format {
            OutputFormat::Ndjson => records.iter().for_each(|record| self.print_json(record)),
            OutputFormat::Json | OutputFormat::Table => self.print_json(records),
        }
    }

    /// Prints a message to standard error, except with `--quiet`.
    pub(crate) fn info(&self, text: &str) {
        if !self.is_quiet {
            self.error(text);
        }
    }

    /// Prints a message to standard error, even with `--quiet`.
    pub(crate) fn error(&self, text: &str) {
        let text = without_userinfo(text.to_owned());
        let mut stderr = self.messages.lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // If standard error is closed, the message cannot be shown anywhere.
        let _ = write!(stderr, "{text}{end}");
    }

    /// Prints the error of a command.
    pub(crate) fn print_error(&self, error: &CliError) {
        let style = self.stderr;
        for diagnostic in &error.diagnostics {
            self.error(&diagnostic.render(style.diagnostic_style()));
        }
        let head = style.bad(&format!("error[{}]", error.code));
        let mut text = format!("{head}: {}\n", error.message);
        for help in &error.help {
            let _ = writeln!(text, "  {} help: {help}", style.dim("="));
        }
        self.error(&text);
    }

    /// Returns whether the output format is JSON or NDJSON.
    pub(crate) fn is_machine(&self) -> bool {
        self.format != OutputFormat::Table
    }

    /// Returns whether `--quiet` is set.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Returns whether standard output is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns whether data was lost for another reason than a closed pipe.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

fn terminal_columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
