//! What stops a verb: an exit code for scripts, and one clear block for people.

use std::borrow::Cow;

use model::diagnostic::Diagnostic;

/// How the process ends; scripts rely on these numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// The run failed.
    RunFailed = 1,
    /// Wrong usage.
    Usage = 2,
    /// The playbook is invalid.
    InvalidPlaybook = 3,
    /// No such thing.
    NotFound = 4,
    /// The store or the server cannot be reached.
    Unreachable = 5,
    /// Not allowed, or not in this state.
    NotAllowed = 6,
    /// Waiting timed out; the run goes on.
    TimedOut = 7,
    /// The run was cancelled.
    Cancelled = 8,
    /// The run is paused or waits for someone.
    Paused = 10,
    /// Interrupted from the keyboard.
    Interrupted = 130,
}

impl Exit {
    /// The number.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }
}

/// Why a verb could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// The stable code.
    pub(crate) code: Cow<'static, str>,
    /// What is wrong, in one line.
    pub(crate) message: String,
    /// What to do, a line each.
    pub(crate) help: Vec<String>,
    /// What is wrong with a playbook, each with its place.
    pub(crate) findings: Vec<Diagnostic>,
}

impl Problem {
    /// A problem without help.
    pub(crate) fn new(exit: Exit, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            code: code.into(),
            message: without_userinfo(message.into()),
            help: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// A problem whose code someone else gives.
    pub(crate) fn coded(exit: Exit, code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned().into(),
            ..Self::new(exit, "", message)
        }
    }

    /// Wrong usage that the argument parser cannot see.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "USAGE", message)
    }

    /// A file that cannot be read.
    pub(crate) fn unreadable(name: &str, error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Self::new(
                Exit::NotFound,
                "FILE_NOT_FOUND",
                format!("`{name}` does not exist"),
            ),
            _ => Self::new(
                Exit::NotAllowed,
                "FILE_NOT_READABLE",
                format!("`{name}` cannot be read: {error}"),
            ),
        }
    }

    /// A file that cannot be written.
    pub(crate) fn unwritable(name: &str, error: &std::io::Error) -> Self {
        let message = format!("`{name}` cannot be written: {error}");
        Self::new(Exit::NotAllowed, "FILE_NOT_WRITABLE", message)
    }

    /// With one more line of help.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(without_userinfo(help.into()));
        self
    }
}

/// A text without the passwords of the URLs in it: a store or a server may be named by one.
pub(crate) fn without_userinfo(text: String) -> String {
    model::userinfo::without_userinfo(&text).unwrap_or(text)
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        let message = format!("{error}{}", source.unwrap_or_default());
        let problem = Self::coded(Exit::Unreachable, error.code(), message);
        match error {
            store::Error::Full { .. } | store::Error::ReserveExhausted { .. } => {
                problem.help(server::FREE_SPACE)
            }
            _ => problem,
        }
    }
}
