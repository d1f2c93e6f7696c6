//! Exhaustion: what cannot be begun because this machine has no file descriptors, processes or memory left.
//!
//! Such a call has had no effect, and neither the task nor its peer is at fault: whoever made it makes it again later.

use std::error::Error as StdError;
use std::fs::File;
use std::io;
use std::path::Path;

use model::outcome::{ErrorKind, TaskError};
use rustix::io::Errno;

/// The code of a call that could not be begun for want of something on this machine.
pub const HOST_EXHAUSTED: &str = "HOST_EXHAUSTED";

/// Whether a file or a connection could not be opened for want of descriptors or memory.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    has_errno(error, &[Errno::MFILE, Errno::NFILE, Errno::NOMEM])
}

/// Whether a program could not be started for want of descriptors, processes or memory.
pub(crate) fn is_start_exhausted(error: &io::Error) -> bool {
    is_exhausted(error) || has_errno(error, &[Errno::AGAIN])
}

/// An error that names a path beside the system's own keeps its number only in its text.
fn has_errno(error: &io::Error, wanted: &[Errno]) -> bool {
    wanted.iter().any(|errno| match error.raw_os_error() {
        Some(number) => number == errno.raw_os_error(),
        None => error
            .to_string()
            .contains(&format!("(os error {})", errno.raw_os_error())),
    })
}

/// The same for an error that others wrap.
fn find_exhausted<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a io::Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<io::Error>()
            && is_exhausted(found)
        {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The want of descriptors at this moment, if there is one. For errors that hide their cause, such as those of name
/// resolution and of databases: it is found by opening a file.
pub(crate) fn find_shortage() -> Option<io::Error> {
    File::open("/dev/null").err().filter(is_exhausted)
}

/// The want of so many descriptors, for what must not be begun without them. Other threads take some at the same time, so
/// more are to be free than are needed.
pub fn find_shortage_of(count: usize) -> Option<io::Error> {
    let opened: io::Result<Vec<File>> = (0..count).map(|_| File::open("/dev/null")).collect();
    opened.err().filter(is_exhausted)
}

/// The same for an error of a library that keeps the message of the system, and not its number.
pub fn find_shortage_in(message: &str) -> Option<io::Error> {
    let wanted = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    find_reported(message, &wanted).or_else(find_shortage)
}

/// The want of descriptors that a message of a library reports, if it lasts. If it does not, what failed may have needed
/// all descriptors itself, and would do so again.
pub fn find_lasting_shortage(message: &str) -> Option<io::Error> {
    let reported = find_reported(message, &[Errno::MFILE, Errno::NFILE]);
    reported.and_then(|_| find_shortage())
}

fn find_reported(message: &str, wanted: &[Errno]) -> Option<io::Error> {
    let wanted = wanted.iter().map(|errno| io::Error::from(*errno));
    let is_reported = |error: &io::Error| {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        message.contains(text)
    };
    wanted.into_iter().find(is_reported)
}

/// The error of a connection that could not be made for want of something on this machine. Name resolution does not
/// report its cause.
pub fn find_connect_shortage(error: &(dyn StdError + 'static)) -> Option<TaskError> {
    match find_exhausted(error) {
        Some(cause) => Some(exhausted_error(cause)),
        None => find_shortage().as_ref().map(exhausted_error),
    }
}

/// The error of a call that could not be begun.
pub fn exhausted_error(error: &io::Error) -> TaskError {
    let message = format!(
        "this machine cannot begin the call now: {error}; allow more open files or processes (`ulimit -n`, `ulimit -u`), \
         or fewer slots"
    );
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Unknown, HOST_EXHAUSTED, message)
    }
}

/// The error of a call without an effect whose response could not be held for want of disk space.
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
    fn the_messages_of_the_system_are_known_in_texts() {
        let text = "IO Error: Cannot open file \"/x\": Too many open files";
        let found = find_shortage_in(text).expect("it is a shortage");
        assert_eq!(found.raw_os_error(), Some(Errno::MFILE.raw_os_error()));
        assert!(find_shortage_in("IO Error: Cannot open file \"/x\": Is a directory").is_none());
        // There are descriptors now.
        assert!(find_lasting_shortage(text).is_none());
    }

    #[test]
    fn the_system_s_numbers_are_known_also_beside_a_path() {
        let descriptors = io::Error::from_raw_os_error(Errno::MFILE.raw_os_error());
        let named = io::Error::other(format!("{descriptors} at path \"/tmp/x\""));
        assert!(is_exhausted(&descriptors) && is_exhausted(&named));
        let processes = io::Error::from_raw_os_error(Errno::AGAIN.raw_os_error());
        assert!(is_start_exhausted(&processes) && !is_exhausted(&processes));
        assert!(!is_start_exhausted(&io::ErrorKind::NotFound.into()));
    }
}
