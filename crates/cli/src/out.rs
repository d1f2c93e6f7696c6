//! Output streams: data goes to standard output, everything else to standard error.
//!
//! If the reader of standard output closes it (`noetl events last | head`), output stops and the process continues.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::args::{ColorWhen, Format};
use crate::config::Environment;
use crate::problem::{Problem, without_userinfo};
use crate::surface::Surface;

/// The two output streams, and what each can display.
#[derive(Debug)]
pub(crate) struct Out {
    /// Output format of data.
    pub(crate) format: Format,
    /// What standard output can display.
    pub(crate) stdout: Surface,
    /// What standard error can display.
    pub(crate) stderr: Surface,
    quiet: bool,
    data: io::Stdout,
    rest: io::Stderr,
    closed: AtomicBool,
    failed: AtomicBool,
}

impl Out {
    /// Creates the streams from flags and environment.
    pub(crate) fn new(
        format: Format,
        color: ColorWhen,
        quiet: bool,
        environment: &Environment,
    ) -> Self {
        let surface = |is_terminal: bool, columns: Option<usize>| Surface {
            color: match color {
                ColorWhen::Always => true,
                ColorWhen::Never => false,
                ColorWhen::Auto => is_terminal && !environment.no_color && !environment.ci,
            },
            unicode: environment.unicode,
            columns: is_terminal.then_some(columns).flatten(),
            live: is_terminal && !environment.ci,
        };
        Self {
            format,
            stdout: surface(io::stdout().is_terminal(), columns(io::stdout())),
            stderr: surface(io::stderr().is_terminal(), columns(io::stderr())),
            quiet,
            data: io::stdout(),
            rest: io::stderr(),
            closed: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// Prints one or more lines of data.
    pub(crate) fn data(&self, text: &str) {
        if self.is_closed() {
            return;
        }
        let mut stdout = self.data.lock();
        let written = stdout
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
        self.written(written);
    }

    /// Records a failed write; a closed pipe is not an error.
    fn written(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.closed.store(true, Ordering::Relaxed);
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.failed.store(true, Ordering::Relaxed);
                self.complain(&format!("cannot write to standard output: {error}"));
            }
        }
    }

    /// Writes raw bytes of data.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        let mut stdout = self.data.lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        drop(stdout);
        self.written(written);
    }

    /// Prints a value as indented JSON, or on one line for `ndjson`.
    pub(crate) fn json<T: Serialize + ?Sized>(&self, value: &T) {
        let text = match self.format {
            Format::Ndjson => serde_json::to_string(value),
            Format::Json | Format::Table => serde_json::to_string_pretty(value),
        };
        self.data(&text.expect("plain data serializes to JSON"));
    }

    /// Prints records: an array for `json`, one per line for `ndjson`.
    pub(crate) fn records<T: Serialize>(&self, records: &[T]) {
        match self.format {
            Format::Ndjson => records.iter().for_each(|record| self.json(record)),
            Format::Json | Format::Table => self.json(records),
        }
    }

    /// Prints a message to standard error, except with `--quiet`.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Prints a message to standard error, even with `--quiet`.
    pub(crate) fn complain(&self, text: &str) {
        let text = without_userinfo(text.to_owned());
        let mut stderr = self.rest.lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // If standard error is closed, the message cannot be shown anywhere.
        let _ = write!(stderr, "{text}{end}");
    }

    /// Prints the error of a command.
    pub(crate) fn problem(&self, problem: &Problem) {
        let surface = self.stderr;
        for finding in &problem.findings {
            self.complain(&finding.render(surface.diagnostics()));
        }
        let head = surface.bad(&format!("error[{}]", problem.code));
        let mut text = format!("{head}: {}\n", problem.message);
        for help in &problem.help {
            let _ = writeln!(text, "  {} help: {help}", surface.dim("="));
        }
        self.complain(&text);
    }

    /// Returns whether the output format is JSON or NDJSON.
    pub(crate) fn is_machine(&self) -> bool {
        self.format != Format::Table
    }

    /// Returns whether `--quiet` is set.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether standard output is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns whether data was lost for another reason than a closed pipe.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
