//! What an address means: an object in a bucket, or a file.

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

/// How long a bucket may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// An address taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectAddress {
    S3 { bucket: String, key: String },
    Gcs { bucket: String, key: String },
    File(PathBuf),
}

/// What may be reached from here.
#[derive(Clone)]
pub struct ObjectAccess {
    /// The engine's own files.
    pub forbidden: Vec<PathBuf>,
    /// Which addresses a bucket's endpoint may have.
    pub guard: Arc<AddressGuard>,
    /// Where large objects wait.
    pub scratch_dir: PathBuf,
}

/// Where an object is.
pub enum ObjectLocation {
    Object { bucket: Bucket, key: String },
    File(PathBuf),
}

impl ObjectAddress {
    /// Reads an address; `None` if its scheme is another's.
    pub fn parse(call: &Call, uri: &str) -> Option<Self> {
        let split = |rest: &str| {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            (bucket.to_owned(), key.to_owned())
        };
        if let Some(rest) = uri.strip_prefix("s3://") {
            let (bucket, key) = split(rest);
            return Some(Self::S3 { bucket, key });
        }
        let google = uri.strip_prefix("gs://").or_else(|| uri.strip_prefix("gcs://"));
        if let Some(rest) = google {
            let (bucket, key) = split(rest);
            return Some(Self::Gcs { bucket, key });
        }
        let path = uri.strip_prefix("file://")?;
        Some(Self::File(call.resolve_path(path)))
    }

    /// The place, reached with a credential where it needs one.
    pub async fn open(self, auth: Option<&Value>, reach: &ObjectAccess) -> Result<ObjectLocation, TaskError> {
        match self {
            Self::File(file) => Ok(ObjectLocation::File(files::check_allowed(file, &reach.forbidden)?)),
            Self::S3 { bucket, key } => {
                check_bucket_name(&bucket)?;
                let config = credential::s3_config(bucket, auth)?;
                let client = guarded_bucket_client(config.endpoint.as_deref(), &reach.guard).await?;
                let bucket = Bucket::s3(&config, SILENCE_MAX, client);
                let bucket = bucket.map_err(|error| invalid_config_error(&error))?;
                Ok(ObjectLocation::Object { bucket, key })
            }
            Self::Gcs { bucket, key } => {
                check_bucket_name(&bucket)?;
                let GcsEndpoint { endpoint, identity } = credential::gcs_endpoint(auth)?;
                let client = guarded_bucket_client(endpoint.as_deref(), &reach.guard).await?;
                let endpoint = endpoint.as_deref();
                let bucket = Bucket::gcs(&bucket, endpoint, &identity, SILENCE_MAX, client);
                let bucket = bucket.map_err(|error| invalid_config_error(&error))?;
                Ok(ObjectLocation::Object { bucket, key })
            }
        }
    }
}

impl ObjectLocation {
    /// Its address.
    pub fn uri(&self) -> String {
        match self {
            Self::Object { bucket, key } => bucket.uri(key),
            Self::File(file) => files::file_uri(file),
        }
    }

    /// What is known of it.
    pub async fn head(&self) -> Result<ObjectSummary, TaskError> {
        match self {
            Self::Object { bucket, key } => bucket.head(key).await.map_err(|error| bucket_task_error(&error)),
            Self::File(file) => files::head(file).await,
        }
    }

    /// Removes it.
    pub(crate) async fn delete(&self) -> Result<bool, TaskError> {
        match self {
            Self::Object { bucket, key } => bucket.delete(key).await.map_err(|error| bucket_task_error(&error)),
            Self::File(file) => files::delete(file).await,
        }
    }
}

/// An object as a result shows it.
pub(super) fn to_json(found: &ObjectSummary) -> Value {
    let mut shown = json!({"uri": found.uri, "size": found.bytes, "etag": found.etag});
    if let Some(modified) = &found.modified {
        shown["modified"] = modified.as_str().into();
    }
    if let Some(content_type) = &found.content_type {
        shown["content_type"] = content_type.as_str().into();
    }
    shown
}

/// What a bucket's refusal means to a playbook.
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
    let message = format!("`{bucket}` is not the name of a bucket");
    Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "uri"))
}

/// What asks a bucket: it reaches no address that `http` may not reach either, whatever a name leads to by then.
async fn guarded_bucket_client(endpoint: Option<&str>, guard: &Arc<AddressGuard>) -> Result<Client, TaskError> {
    let url = match endpoint {
        Some(endpoint) => Some(check_endpoint(endpoint, guard).await?),
        None => None,
    };
    guarded_client(guard, url.as_ref(), SILENCE_MAX)
}

/// Refuses an endpoint that leads where `http` may not go, before anything is asked: a refusal says why.
async fn check_endpoint(endpoint: &str, guard: &AddressGuard) -> Result<Url, TaskError> {
    let blocked = |problem: String| {
        TaskError::new(
            ErrorKind::ClientError,
            "OBJECT_INVALID",
            format!("`endpoint`: {problem}"),
        )
    };
    let url = Url::parse(endpoint).map_err(|_| blocked("it is no URL".to_owned()))?;
    guard.check_url(&url).map_err(|why| blocked(why.to_string()))?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let addresses = tokio::net::lookup_host((host.as_str(), port)).await;
    let addresses = addresses.map_err(|error| {
        let message = format!("`endpoint`: `{host}` leads nowhere: {error}");
        TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message)
    })?;
    for address in addresses {
        let checked = guard.check_address(&host, address.ip(), Some(port));
        checked.map_err(|why| blocked(why.to_string()))?;
    }
    Ok(url)
}

fn invalid_config_error(error: &results::Error) -> TaskError {
    TaskError::new(ErrorKind::Auth, "AUTH_INVALID", error.to_string())
}
