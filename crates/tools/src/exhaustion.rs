//! Exhaustion of this machine: file descriptors, processes or memory.
//!
//! A call that fails for this reason has no effect, and neither the task nor the server is at fault, so the worker runs
//! it again later.

use std::error::Error as StdError;
use std::fs::File;
use std::io;
use std::path::Path;

use model::outcome::{ErrorKind, TaskError};
use rustix::io::Errno;

/// Error code of a call that could not start because this machine is exhausted.
pub const HOST_EXHAUSTED: &str = "HOST_EXHAUSTED";

/// Whether a file or connection could not be opened because descriptors or memory are exhausted.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    has_errno(error, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM])
}

/// Whether a program could not be started because descriptors, processes or memory are exhausted.
pub(crate) fn is_start_exhausted(error: &io::Error) -> bool {
    is_exhausted(error) || has_errno(error, &[Errno::AGAIN])
}

/// An error with a path has its number only in its text.
fn has_errno(error: &io::Error, expected: &[Errno]) -> bool {
    expected.iter().any(|errno| match error.raw_os_error() {
        Some(number) => number == errno.raw_os_error(),
        None => error
            .to_string()
            .contains(&format!("(os error {})", errno.raw_os_error())),
    })
}

/// Finds such an error in a chain of sources.
fn find_exhausted<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    let mut chain = std::iter::successors(Some(error), |error| (*error).source());
    chain.find_map(|error| error.downcast_ref().filter(|error| is_exhausted(error)))
}

/// Error of opening a file if descriptors are exhausted now. For errors that hide their cause, such as those of name
/// resolution and databases.
pub(crate) fn find_shortage() -> Option<io::Error> {
    File::open("/dev/null").err().filter(is_exhausted)
}

/// Error if fewer than `count` descriptors are free, for operations that must not start without them. Other threads
/// open files meanwhile, so `count` should include a reserve.
pub fn find_shortage_of(count: usize) -> Option<io::Error> {
    let opened: io::Result<Vec<File>> = (0..count).map(|_| File::open("/dev/null")).collect();
    opened.err().filter(is_exhausted)
}

/// Shortage reported in a library's message, which has the text of the system's error but not its number.
pub fn find_shortage_in(message: &str) -> Option<io::Error> {
    let expected = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    find_reported(message, &expected).or_else(find_shortage)
}

/// Shortage of descriptors in a library's message, if it persists. If it does not, the operation itself may have used
/// up the descriptors, and a retry would fail again.
pub fn find_lasting_shortage(message: &str) -> Option<io::Error> {
    let reported = find_reported(message, &[Errno::MFILE, Errno::NFILE]);
    reported.and_then(|_| find_shortage())
}

fn find_reported(message: &str, expected: &[Errno]) -> Option<io::Error> {
    let expected = expected.iter().map(|errno| io::Error::from(*errno));
    let is_reported = |error: &io::Error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        message.contains(text)
    };
    expected.into_iter().find(is_reported)
}

/// Error of a connection that failed because this machine is exhausted. Name resolution does not report its cause.
pub fn find_connect_shortage(error: &(dyn StdError + 'static)) -> Option<TaskError> {
    match find_exhausted(error) {
        Some(cause) => Some(exhausted_error(cause)),
        None => find_shortage().as_ref().map(exhausted_error),
    }
}

/// Error of a call that could not start.
pub fn exhausted_error(error: &io::Error) -> TaskError {
    let message = format!(
        "this machine cannot start the call now: {error}; allow more open files or processes (`ulimit -n`, `ulimit -u`), \
         or fewer slots"
    );
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Unknown, HOST_EXHAUSTED, message)
    }
}

/// Error of a call without side effects whose response could not be stored because the disk is full.
pub(crate) fn out_of_space_error(dir: &Path) -> TaskError {
    let message = format!(
        "the response was interrupted while it waited for disk space in `{}`; free some space",
        dir.display()
    );
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Storage, HOST_EXHAUSTED, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortages_are_recognized_in_messages() {
        let text = "IO Error: Cannot open file \"/x\": Too many open files";
        let shortage = find_shortage_in(text).expect("it is a shortage");
        assert_eq!(shortage.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        assert!(find_shortage_in("IO Error: Cannot open file \"/x\": Is a directory").is_none());
        // Descriptors are available now.
        assert!(find_lasting_shortage(text).is_none());
    }

    #[test]
    fn error_numbers_are_recognized_next_to_a_path() {
        let descriptors = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        let named = io::Error::other(format!("{descriptors} at path \"/tmp/x\""));
        assert!(is_exhausted(&descriptors) && is_exhausted(&named));
        let processes = io::Error::from_raw_os_error(Errno::AGAIN.raw_os_error());
        assert!(is_start_exhausted(&processes) && !is_exhausted(&processes));
        assert!(!is_start_exhausted(&io::ErrorKind::NotFound.into()));
    }
}
