//! What NATS's errors mean to a playbook.

use std::error::Error as StdError;

use async_nats::jetstream::context::{
    GetStreamError, GetStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::{self, ErrorCode};
use model::nats_version;
use model::outcome::{ErrorKind, TaskError};

/// An error of NATS.
pub(crate) fn failed(kind: ErrorKind, code: &str, message: impl Into<String>) -> TaskError {
    TaskError::new(kind, code, message)
}

/// Something that is not there.
pub(crate) fn not_found(code: &str, what: &str, name: &str) -> TaskError {
    failed(
        ErrorKind::NotFound,
        code,
        format!("there is no {what} `{name}`"),
    )
}

/// A value that another writer has changed meanwhile.
pub(crate) fn wrong_revision(expected: u64) -> TaskError {
    let message =
        format!("the last revision is not {expected}: somebody else has written meanwhile");
    failed(ErrorKind::ClientError, "NATS_WRONG_REVISION", message)
}

/// An answer that did not come.
pub(crate) fn silent() -> TaskError {
    failed(ErrorKind::Timeout, "TIMEOUT", "NATS did not answer in time")
}

/// A message larger than the server takes.
pub(crate) fn too_large() -> TaskError {
    let message = "the message is larger than the server takes: use object_put";
    failed(ErrorKind::Schema, "NATS_PAYLOAD_TOO_LARGE", message)
}

/// Anything else that went wrong at the peer.
pub(crate) fn other(error: &(dyn StdError + 'static)) -> TaskError {
    let text = told(error);
    if text.contains("timed out") {
        return silent();
    }
    let code = if text.contains("jetstream not enabled") || text.contains("no responders") {
        "NATS_NO_JETSTREAM"
    } else {
        "NATS_FAILED"
    };
    failed(ErrorKind::ServerError, code, format!("NATS failed: {text}"))
}

/// The same error, naming a server that is too old for what was asked of it.
pub(crate) fn with_version(mut error: TaskError, version: &str) -> TaskError {
    if matches!(
        error.code.as_str(),
        "NATS_FAILED" | "NATS_NO_JETSTREAM" | "TIMEOUT"
    ) && let Some(problem) = nats_version::problem(version)
    {
        error.message = format!("{}; {problem}", error.message);
    }
    error
}

/// A publication that was not acknowledged.
pub(crate) fn not_published(
    error: &PublishError,
    subject: &str,
    expected: Option<u64>,
) -> TaskError {
    match error.kind() {
        PublishErrorKind::StreamNotFound => {
            let message = format!("no stream takes the subject `{subject}`");
            failed(ErrorKind::NotFound, "NATS_STREAM_NOT_FOUND", message)
        }
        PublishErrorKind::WrongLastSequence => wrong_revision(expected.unwrap_or_default()),
        PublishErrorKind::MaxPayloadExceeded => too_large(),
        PublishErrorKind::TimedOut => silent(),
        _ => other(error),
    }
}

/// A stream or bucket that cannot be had.
pub(crate) fn no_stream(error: &(dyn StdError + 'static), missing: TaskError) -> TaskError {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<GetStreamError>() {
            return match found.kind() {
                GetStreamErrorKind::JetStream(error) if is_missing(&error) => missing,
                GetStreamErrorKind::EmptyName | GetStreamErrorKind::InvalidStreamName => missing,
                _ => other(found),
            };
        }
        next = error.source();
    }
    missing
}

fn is_missing(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

/// The error and its sources in one sentence, each said once.
pub(crate) fn told(error: &(dyn StdError + 'static)) -> String {
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
