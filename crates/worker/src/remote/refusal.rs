//! What a server's refusal means for whoever stores or reads there.

use std::io;
use std::path::PathBuf;

use results::Error;
use wire::CallError;

/// The error of a store that a server stands for.
pub(super) fn failed(error: CallError, uri: &str, place: &str) -> Error {
    let file = PathBuf::from(place);
    let uri = uri.to_owned();
    match error.code() {
        Some("REFERENCE_NOT_AVAILABLE") => Error::NotAvailable { uri },
        Some("REFERENCE_CORRUPT") => Error::Corrupt { uri, file },
        Some("STORAGE_FULL") => Error::Full { file },
        _ if error.is_passing() => Error::Unavailable {
            file,
            source: io::Error::other(error),
        },
        _ => Error::Refused {
            file,
            source: io::Error::other(error),
        },
    }
}
