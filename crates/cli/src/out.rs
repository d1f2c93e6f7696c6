//! Where text leaves: data on standard output, everything else on standard error.
//!
//! A reader that goes away (`noetl events last | head`) ends the output, not the process.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;

use crate::args::{ColorWhen, Format};
use crate::config::Environment;
use crate::problem::{Problem, without_userinfo};
use crate::surface::Surface;

/// The two streams, and what may be shown on each.
#[derive(Debug)]
pub(crate) struct Out {
    /// How data is printed.
    pub(crate) format: Format,
    /// What standard output can show.
    pub(crate) stdout: Surface,
    /// What standard error can show.
    pub(crate) stderr: Surface,
    quiet: bool,
    data: io::Stdout,
    rest: io::Stderr,
    closed: AtomicBool,
    failed: AtomicBool,
}

impl Out {
    /// The streams as flags and surroundings have them.
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

    /// Prints a line (or lines) of data.
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

    /// Takes note of a reader that is gone.
    fn written(&self, written: io::Result<()>) {
        if let Err(error) = written {
            self.closed.store(true, Ordering::Relaxed);
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.failed.store(true, Ordering::Relaxed);
                self.complain(&format!("standard output cannot be written: {error}"));
            }
        }
    }

    /// Writes bytes of data as they are.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.is_closed() {
            return;
        }
        let mut stdout = self.data.lock();
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        drop(stdout);
        self.written(written);
    }

    /// Prints a value: pretty JSON, or one line of it where lines are records.
    pub(crate) fn json<T: Serialize + ?Sized>(&self, value: &T) {
        let text = match self.format {
            Format::Ndjson => serde_json::to_string(value),
            Format::Json | Format::Table => serde_json::to_string_pretty(value),
        };
        self.data(&text.expect("plain data serialises to JSON"));
    }

    /// Prints records: an array for `json`, one per line for `ndjson`.
    pub(crate) fn records<T: Serialize>(&self, records: &[T]) {
        match self.format {
            Format::Ndjson => records.iter().for_each(|record| self.json(record)),
            Format::Json | Format::Table => self.json(records),
        }
    }

    /// Says something on standard error, unless asked to be quiet.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.complain(text);
        }
    }

    /// Says something on standard error in any case.
    pub(crate) fn complain(&self, text: &str) {
        let text = without_userinfo(text.to_owned());
        let mut stderr = self.rest.lock();
        let end = if text.ends_with('\n') { "" } else { "\n" };
        // Nobody is left to tell when standard error is gone.
        let _ = write!(stderr, "{text}{end}");
    }

    /// Shows what stopped a verb.
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

    /// Whether data is for a machine.
    pub(crate) fn is_machine(&self) -> bool {
        self.format != Format::Table
    }

    /// Whether progress is unwanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether the reader of standard output has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether data was lost for another reason than that its reader went away.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }
}

fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}
