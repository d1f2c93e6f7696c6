//! Converts NATS errors to task errors.

use std::error::Error as StdError;

use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind};
use async_nats::jetstream::{self, ErrorCode};
use model::nats_version;
use model::outcome::{ErrorKind, TaskError};

/// An error of NATS.
pub(crate) fn nats_error(kind: ErrorKind, code: &str, message: impl Into<String>) -> TaskError {
    TaskError::new(kind, code, message)
}

/// Error of something that does not exist.
pub(crate) fn not_found_error(code: &str, what: &str, name: &str) -> TaskError {
    nats_error(ErrorKind::NotFound, code, format!("{what} `{name}` not found"))
}

/// Error of a value that was changed concurrently.
pub(crate) fn wrong_revision_error(expected: u64) -> TaskError {
    let message = format!("the last revision is not {expected}: another writer has changed it");
    nats_error(ErrorKind::ClientError, "NATS_WRONG_REVISION", message)
}

/// Error of a missing response.
pub(crate) fn no_response_error() -> TaskError {
    nats_error(ErrorKind::Timeout, "TIMEOUT", "NATS did not respond in time")
}

/// Error of a message that exceeds the server's limit.
pub(crate) fn message_too_large_error() -> TaskError {
    let message = "the message exceeds the server's maximum payload; use object_put";
    nats_error(ErrorKind::Schema, "NATS_PAYLOAD_TOO_LARGE", message)
}

/// Any other error of the server.
pub(crate) fn peer_error(error: &(dyn StdError + 'static)) -> TaskError {
    let text = error_chain(error);
    if text.contains("timed out") {
        return no_response_error();
    }
    let code = if text.contains("jetstream not enabled") || text.contains("no responders") {
        "NATS_NO_JETSTREAM"
    } else {
        "NATS_FAILED"
    };
    nats_error(ErrorKind::ServerError, code, format!("NATS error: {text}"))
}

/// Adds a hint to the error if the server version is too old.
pub(crate) fn with_version(mut error: TaskError, version: &str) -> TaskError {
    if matches!(error.code.as_str(), "NATS_FAILED" | "NATS_NO_JETSTREAM" | "TIMEOUT")
        && let Some(problem) = nats_version::check_version(version)
    {
        error.message = format!("{}; {problem}", error.message);
    }
    error
}

/// Error of a message that was not acknowledged.
pub(crate) fn publish_error(error: &PublishError, subject: &str, expected: Option<u64>) -> TaskError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            let message = format!("no stream is configured for subject `{subject}`");
            nats_error(ErrorKind::NotFound, "NATS_STREAM_NOT_FOUND", message)
        }
        PublishErrorKind::WrongLastSequence => wrong_revision_error(expected.unwrap_or_default()),
        PublishErrorKind::MaxPayloadExceeded => message_too_large_error(),
        PublishErrorKind::TimedOut => no_response_error(),
        _ => peer_error(error),
    }
}

/// Error of a stream or bucket that could not be opened.
pub(crate) fn stream_error(error: &(dyn StdError + 'static), missing: TaskError) -> TaskError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<GetStreamError>() {
            return match found.kind() {
                GetStreamErrorKind::JetStream(error) if is_missing(&error) => missing,
                GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => missing,
                _ => peer_error(found),
            };
        }
        next = error.source();
    }
    missing
}

fn is_missing(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

/// Joins the messages of an error and its sources, without repetition.
pub(crate) fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(&format!(": {more}"));
        }
        source = error.source();
    }
    text
}
