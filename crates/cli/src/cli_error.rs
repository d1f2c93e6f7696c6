//! Errors of commands: an exit code for scripts, and a message with help for users.

use std::borrow::Cow;
use std::error::Error;

use language::diagnostic::Diagnostic;

/// Exit code of the process; scripts rely on these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Done = 0,
    /// The run failed.
    RunFailed = 1,
    /// Wrong usage.
    Usage = 2,
    /// The playbook is invalid.
    InvalidPlaybook = 3,
    /// Not found.
    NotFound = 4,
    /// The store or the server is unreachable.
    Unreachable = 5,
    /// Not allowed, or not possible in the current state.
    NotAllowed = 6,
    /// Waiting timed out; the run continues.
    TimedOut = 7,
    /// The run was cancelled.
    Cancelled = 8,
    /// The run is paused.
    Paused = 10,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl Exit {
    /// Returns the number of the exit code.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliError {
    /// Exit code of the process.
    pub(crate) exit: Exit,
    /// Stable error code.
    pub(crate) code: Cow<'static, str>,
    /// Error message, one line.
    pub(crate) message: String,
    /// Help lines: what the user can do.
    pub(crate) help: Vec<String>,
    /// Diagnostics of a playbook.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl CliError {
    /// Creates an error without help.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: without_userinfo(message.into()),
            help: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Creates an error with a code from another crate or a server.
    pub(crate) fn with_code(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned().into(),
            ..Self::new(exit, "", message)
        }
    }

    /// Creates a usage error that the argument parser cannot detect.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    /// Creates the error for a file that cannot be read.
    pub(crate) fn read_error(name: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => {
                Self::new(Exit::NotFound, "FILE_NOT_FOUND", format!("file `{name}` not found"))
            }
            _ => Self::new(
                Exit::NotAllowed,
                "FILE_NOT_READABLE",
                format!("cannot read `{name}`: {error}"),
            ),
        }
    }

    /// Creates the error for a file that cannot be written.
    pub(crate) fn write_error(name: &str, error: &std::io::Error) -> Self {
        let message = format!("cannot write `{name}`: {error}");
        Self::new(Exit::NotAllowed, "FILE_NOT_WRITABLE", message)
    }

    /// Adds a line of help.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(without_userinfo(help.into()));
        self
    }
}

/// Removes user names and passwords from the URLs in a text; store and server URLs may contain them.
pub(crate) fn without_userinfo(text: String) -> String {
    model::userinfo::without_userinfo(&text).unwrap_or(text)
}

/// Returns the last cause in the chain of an error; of a failed connection, only this one says why it failed.
pub(crate) fn innermost_cause<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause| (*cause).source()).last()
}

impl From<store::Error> for CliError {
    fn from(error: store::Error) -> Self {
        let source = match &error {
            store::Error::Unreachable { .. } => innermost_cause(&error),
            _ => error.source(),
        };
        let source = source.map(|source| format!(": {source}"));
        let message = format!("{error}{}", source.unwrap_or_default());
        let problem = Self::with_code(Exit::Unreachable, error.code(), message);
        match error {
            store::Error::Full { .. } | store::Error::ReserveExhausted { .. } => {
                problem.help(server::FREE_SPACE_REMEDY)
            }
            _ => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_store_is_reported_with_the_innermost_cause() {
        let refused = std::io::Error::other("connection refused");
        let connecting = store::Error::Unavailable(refused.into());
        let error = CliError::from(store::Error::Unreachable {
            location: "127.0.0.1:5432/noetl".to_owned(),
            source: connecting.into(),
        });
        let message = "cannot connect to Postgres at 127.0.0.1:5432/noetl: connection refused";
        assert_eq!(error.message, message);
    }
}
