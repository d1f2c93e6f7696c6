//! What a bucket's refusals mean.

use std::io;
use std::path::PathBuf;

use object_store::Error as Fault;

use crate::Error;

/// What it means for whoever stores or reads at `place`; `uri` names the body that was asked for.
pub(super) fn named(fault: Fault, place: &str, uri: Option<&str>) -> Error {
    let file = PathBuf::from(place);
    match (fault, uri) {
        // A bucket that is not there is a setting that is wrong, unless a body was asked for.
        (Fault::NotFound { .. }, Some(uri)) => Error::NotAvailable {
            uri: uri.to_owned(),
        },
        (
            fault @ (Fault::NotFound { .. }
            | Fault::PermissionDenied { .. }
            | Fault::Unauthenticated { .. }
            | Fault::InvalidPath { .. }
            | Fault::NotSupported { .. }
            | Fault::NotImplemented { .. }),
            _,
        ) => Error::Refused {
            file,
            source: io::Error::other(fault),
        },
        (fault, _) => Error::Unavailable {
            file,
            source: io::Error::other(fault),
        },
    }
}
