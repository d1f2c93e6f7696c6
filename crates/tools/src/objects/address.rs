//! Addresses of objects in buckets and of files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use reqwest::{Client, Url};
use results::{Bucket, BucketError, ObjectSummary};
use serde_json::{Value, json};

use super::credential::{self, GcsEndpoint};
use super::files;
use crate::call::Call;
use crate::http::{AddressGuard, guarded_client};

/// Maximum time without a response from a bucket.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// A parsed address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectAddress {
    S3 { bucket: String, key: String },
    Gcs { bucket: String, key: String },
    File(PathBuf),
}

/// Access to files and buckets.
#[derive(Clone)]
pub struct ObjectAccess {
    /// Files of NoETL itself, which tasks must not use.
    pub forbidden: Vec<PathBuf>,
    /// Address rules for the endpoints of buckets.
    pub guard: Arc<AddressGuard>,
    /// Directory for temporary files.
    pub scratch_dir: PathBuf,
}

/// Location of an object.
pub enum ObjectLocation {
    Object { bucket: Bucket, key: String },
    File(PathBuf),
}

impl ObjectAddress {
    /// Parses an address; `None` if the scheme is different.
    pub fn parse(call: &Call, uri: &str) -> Option<Self> {
        let split = |path: &str| {
            let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
            (bucket.to_owned(), key.to_owned())
        };
        if let Some(path) = uri.strip_prefix("s3://") {
            let (bucket, key) = split(path);
            return Some(Self::S3 { bucket, key });
        }
        let google = uri.strip_prefix("gs://").or_else(|| uri.strip_prefix("gcs://"));
        if let Some(path) = google {
            let (bucket, key) = split(path);
            return Some(Self::Gcs { bucket, key });
        }
        let path = uri.strip_prefix("file://")?;
        Some(Self::File(call.resolve_path(path)))
    }

    /// Opens the location, with the credential if the bucket needs one.
    pub async fn open(self, auth: Option<&Value>, access: &ObjectAccess) -> Result<ObjectLocation, TaskError> {
        match self {
            Self::File(file) => Ok(ObjectLocation::File(files::check_allowed(file, &access.forbidden)?)),
            Self::S3 { bucket, key } => {
                check_bucket_name(&bucket)?;
                let config = credential::s3_config(bucket, auth)?;
                let client = guarded_bucket_client(config.endpoint.as_deref(), &access.guard).await?;
                let bucket = Bucket::s3(&config, RESPONSE_TIMEOUT, client);
                let bucket = bucket.map_err(|error| invalid_config_error(&error))?;
                Ok(ObjectLocation::Object { bucket, key })
            }
            Self::Gcs { bucket, key } => {
                check_bucket_name(&bucket)?;
                let GcsEndpoint { endpoint, identity } = credential::gcs_endpoint(auth)?;
                let client = guarded_bucket_client(endpoint.as_deref(), &access.guard).await?;
                let endpoint = endpoint.as_deref();
                let bucket = Bucket::gcs(&bucket, endpoint, &identity, RESPONSE_TIMEOUT, client);
                let bucket = bucket.map_err(|error| invalid_config_error(&error))?;
                Ok(ObjectLocation::Object { bucket, key })
            }
        }
    }
}

impl ObjectLocation {
    /// Address of the object or file.
    pub fn uri(&self) -> String {
        match self {
            Self::Object { bucket, key } => bucket.uri(key),
            Self::File(file) => files::file_uri(file),
        }
    }

    /// Metadata of the object or file.
    pub async fn head(&self) -> Result<ObjectSummary, TaskError> {
        match self {
            Self::Object { bucket, key } => bucket.head(key).await.map_err(|error| bucket_task_error(&error)),
            Self::File(file) => files::head(file).await,
        }
    }

    /// Deletes the object or file; returns whether it existed.
    pub(crate) async fn delete(&self) -> Result<bool, TaskError> {
        match self {
            Self::Object { bucket, key } => bucket.delete(key).await.map_err(|error| bucket_task_error(&error)),
            Self::File(file) => files::delete(file).await,
        }
    }
}

/// An object in a result.
pub(super) fn to_json(summary: &ObjectSummary) -> Value {
    let mut json = json!({"uri": summary.uri, "size": summary.bytes, "etag": summary.etag});
    if let Some(modified) = &summary.modified {
        json["modified"] = modified.as_str().into();
    }
    if let Some(content_type) = &summary.content_type {
        json["content_type"] = content_type.as_str().into();
    }
    json
}

/// Converts a bucket error to a task error.
pub(crate) fn bucket_task_error(error: &BucketError) -> TaskError {
    let (kind, code) = match error {
        BucketError::NotFound { .. } => (ErrorKind::NotFound, "OBJECT_NOT_FOUND"),
        BucketError::PermissionDenied { .. } => (ErrorKind::Auth, "OBJECT_DENIED"),
        BucketError::InvalidRequest { .. } => (ErrorKind::ClientError, "OBJECT_INVALID"),
        BucketError::Unavailable { .. } => (ErrorKind::Connection, "OBJECT_UNAVAILABLE"),
        BucketError::SourceUnreadable(_) => (ErrorKind::Storage, "OBJECT_SOURCE"),
    };
    let mut message = error.to_string();
    if let BucketError::SourceUnreadable(source) = error {
        message.push_str(&format!(": {source}"));
    }
    TaskError::new(kind, code, message)
}

fn check_bucket_name(bucket: &str) -> Result<(), TaskError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !bucket.is_empty() && bucket.chars().all(is_name) {
        return Ok(());
    }
    let message = format!("`{bucket}` is not a valid bucket name");
    Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "uri"))
}

/// Client for a bucket. It has the same address rules as `http`, also for names that resolve differently later.
async fn guarded_bucket_client(endpoint: Option<&str>, guard: &Arc<AddressGuard>) -> Result<Client, TaskError> {
    let url = match endpoint {
        Some(endpoint) => Some(check_endpoint(endpoint, guard).await?),
        None => None,
    };
    guarded_client(guard, url.as_ref(), RESPONSE_TIMEOUT)
}

/// Rejects a blocked endpoint before the first request, so that the error states the reason.
async fn check_endpoint(endpoint: &str, guard: &AddressGuard) -> Result<Url, TaskError> {
    let blocked = |problem: String| {
        TaskError::new(
            ErrorKind::ClientError,
            "OBJECT_INVALID",
            format!("`endpoint`: {problem}"),
        )
    };
    let url = Url::parse(endpoint).map_err(|_| blocked("not a URL".to_owned()))?;
    guard.check_url(&url).map_err(|error| blocked(error.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses = tokio::net::lookup_host((host.as_str(), port)).await;
    let addresses = addresses.map_err(|error| {
        let message = format!("`endpoint`: cannot resolve `{host}`: {error}");
        TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message)
    })?;
    for address in addresses {
        let checked = guard.check_address(&host, address.ip(), Some(port));
        checked.map_err(|error| blocked(error.to_string()))?;
    }
    Ok(url)
}

fn invalid_config_error(error: &results::Error) -> TaskError {
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", error.to_string())
}
