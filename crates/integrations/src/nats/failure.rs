//! Converts NATS errors to task errors.

use std::error::Error as StdError;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind};
use model::nats_version;
use model::outcome::{ErrorKind, TaskError};

/// Error of something that does not exist.
pub(crate) fn not_found_error(code: &str, noun: &str, name: &str) -> TaskError {
    TaskError::new(ErrorKind::NotFound, code, format!("{noun} `{name}` not found"))
}

/// Error of a value that was changed concurrently.
pub(crate) fn wrong_revision_error(expected: u64) -> TaskError {
    let message = format!("the last revision is not {expected}: another writer has changed it");
    TaskError::new(ErrorKind::ClientError, "NATS_WRONG_REVISION", message)
}

/// Error of a missing response.
pub(crate) fn no_response_error() -> TaskError {
    TaskError::new(ErrorKind::Timeout, "TIMEOUT", "NATS did not respond in time")
}

/// Error of a message that exceeds the server's limit.
pub(crate) fn message_too_large_error() -> TaskError {
    let message = "the message exceeds the server's maximum payload; use object_put";
    TaskError::new(ErrorKind::Schema, "NATS_PAYLOAD_TOO_LARGE", message)
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
    TaskError::new(ErrorKind::ServerError, code, format!("NATS error: {text}"))
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
            TaskError::new(ErrorKind::NotFound, "NATS_STREAM_NOT_FOUND", message)
        }
        PublishErrorKind::WrongLastSequence => wrong_revision_error(expected.unwrap_or_default()),
        PublishErrorKind::MaxPayloadExceeded => message_too_large_error(),
        PublishErrorKind::TimedOut => no_response_error(),
        _ => peer_error(error),
    }
}

/// Error of a stream or bucket that could not be opened.
pub(crate) fn stream_error(error: &(dyn StdError + 'static), missing: TaskError) -> TaskError {
    let mut chain = std::iter::successors(Some(error), |error| (*error).source());
    let Some(cause) = chain.find_map(|error| error.downcast_ref::<GetStreamError>()) else {
        return missing;
    };
    match cause.kind() {
        GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => missing,
        GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => missing,
        _ => peer_error(cause),
    }
}

/// Joins the messages of an error and its sources, without repetition.
pub(crate) fn error_chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for source in std::iter::successors(error.source(), |error| (*error).source()) {
        let message = source.to_string();
        if !text.contains(&message) {
            text.push_str(&format!(": {message}"));
        }
    }
    text
}
