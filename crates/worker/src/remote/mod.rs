//! What a worker without stores of its own keeps at a server: the bodies of results, and what tasks print.

mod bodies;
mod logs;

pub use bodies::ServerBodies;
pub use logs::ServerLogs;

use std::io;
use std::path::PathBuf;

use results::Error;
use wire::CallError;

/// What a server's refusal means for whoever stores or reads there.
fn failed(error: CallError, uri: &str, place: &str) -> Error {
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
