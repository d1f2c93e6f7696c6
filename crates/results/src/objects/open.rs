//! A client for a bucket: who asks, where, and how patiently.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::Error;
use crate::config::{GcsConfig, GcsIdentity, S3Config};

/// A request is made so often, and once more.
const RETRIES_MAX: usize = 3;
/// The first wait between two tries.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// How long a connection may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Sends every request of a bucket with a client that somebody else has made.
#[derive(Debug)]
pub(super) struct Through(pub(super) reqwest::Client);

impl HttpConnector for Through {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

/// A client for a bucket of S3.
pub(super) fn s3(
    config: &S3Config,
    silence_max: Duration,
    through: Option<Through>,
) -> Result<AmazonS3, Error> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&config.bucket)
        .with_retry(retries(silence_max))
        .with_client_options(options(silence_max, config.endpoint.as_deref()));
    for (name, value) in &config.credentials {
        // Variables that a client has no use for are left to other programs.
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value.reveal());
        }
    }
    if let Some(through) = through {
        builder = builder.with_http_connector(through);
    }
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let built = builder.build();
    built.map_err(|error| invalid("the bucket of S3", &error))
}

/// A client for a bucket of Google Cloud Storage.
pub(super) fn gcs(config: &GcsConfig, silence_max: Duration) -> Result<GoogleCloudStorage, Error> {
    let identity = match (&config.credentials, &config.endpoint) {
        (Some(file), _) => GcsIdentity::File(file.clone()),
        (None, Some(_)) => GcsIdentity::Anybody,
        (None, None) => GcsIdentity::Machine,
    };
    gcs_as(
        &config.bucket,
        config.endpoint.as_deref(),
        &identity,
        silence_max,
        None,
    )
}

/// A client for a bucket of Google Cloud Storage that asks as somebody.
pub(super) fn gcs_as(
    bucket: &str,
    endpoint: Option<&str>,
    identity: &GcsIdentity,
    silence_max: Duration,
    through: Option<Through>,
) -> Result<GoogleCloudStorage, Error> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_retry(retries(silence_max))
        .with_client_options(options(silence_max, endpoint));
    if let Some(through) = through {
        builder = builder.with_http_connector(through);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_base_url(endpoint.trim_end_matches('/'));
    }
    builder = match identity {
        GcsIdentity::File(file) => builder.with_application_credentials(file.to_string_lossy()),
        GcsIdentity::Key(key) => builder.with_service_account_key(key.reveal()),
        GcsIdentity::Token(token) => builder.with_bearer_token(token.reveal()),
        // Whoever stands in for Google believes everybody; the machine's own account is not asked for then.
        GcsIdentity::Anybody => builder.with_bearer_token("anybody"),
        GcsIdentity::Machine => builder,
    };
    let built = builder.build();
    built.map_err(|error| invalid("the bucket of Google Cloud Storage", &error))
}

fn retries(silence_max: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: WAIT_MIN,
            max_backoff: WAIT_MAX,
            base: 2.0,
        },
        max_retries: RETRIES_MAX,
        retry_timeout: silence_max * 3,
    }
}

fn options(silence_max: Duration, endpoint: Option<&str>) -> ClientOptions {
    // The one provider of this house; that another was installed before does no harm.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let in_clear = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_allow_http(in_clear)
        .with_connect_timeout(CONNECT_MAX.min(silence_max))
        .with_timeout_disabled()
        .with_read_timeout(silence_max)
}

fn invalid(what: &'static str, error: &object_store::Error) -> Error {
    Error::Invalid {
        what,
        problem: error.to_string(),
    }
}
