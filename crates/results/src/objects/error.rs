//! Converts errors of buckets.

use std::io;
use std::path::PathBuf;

use object_store::Error as ObjectStoreError;

use crate::Error;

/// Converts an error of a bucket at `location`; `uri` is the requested body, if any.
pub(super) fn into_store_error(error: ObjectStoreError, location: &str, uri: Option<&str>) -> Error {
    let file = PathBuf::from(location);
    match (error, uri) {
        // If no body was requested, a missing bucket is a configuration error.
        (ObjectStoreError::NotFound { .. }, Some(uri)) => Error::NotAvailable { uri: uri.to_owned() },
        (
            error @ (ObjectStoreError::NotFound { .. }
            | ObjectStoreError::PermissionDenied { .. }
            | ObjectStoreError::Unauthenticated { .. }
            | ObjectStoreError::InvalidPath { .. }
            | ObjectStoreError::NotSupported { .. }
            | ObjectStoreError::NotImplemented { .. }),
            _,
        ) => Error::Refused {
            file,
            source: io::Error::other(error),
        },
        (error, _) => Error::Unavailable {
            file,
            source: io::Error::other(error),
        },
    }
}
