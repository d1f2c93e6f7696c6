//! Maps errors of API calls to errors of the body store.

use std::io;
use std::path::PathBuf;

use results::Error;
use wire::CallError;

/// Converts an API error to the error of the store behind the API.
pub(super) fn into_store_error(error: CallError, uri: &str, location: &str) -> Error {
    let file = PathBuf::from(location);
    let uri = uri.to_owned();
    match error.code() {
        Some("REFERENCE_NOT_AVAILABLE") => Error::NotAvailable { uri },
        Some("REFERENCE_CORRUPT") => Error::Corrupt { uri, file },
        Some("STORAGE_FULL") => Error::Full { file },
        _ if error.is_transient() => Error::Unavailable {
            file,
            source: io::Error::other(error),
        },
        _ => Error::Refused {
            file,
            source: io::Error::other(error),
        },
    }
}
