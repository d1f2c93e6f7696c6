//! Clients for buckets: credentials, endpoint, timeouts and retries.

use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};

use crate::Error;
use crate::config::{GcsConfig, GcsIdentity, S3Config};

/// Maximum number of retries of a request.
const RETRIES_MAX: usize = 3;
/// First delay between retries.
const RETRY_WAIT_MIN: Duration = Duration::from_millis(100);
/// Maximum delay between retries.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);
/// Timeout for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Connector that sends all requests of a bucket with a given HTTP client.
#[derive(Debug)]
pub(super) struct FixedConnector(pub(super) reqwest::Client);

impl HttpConnector for FixedConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.0.clone()))
    }
}

/// Builds a client for an S3 bucket.
pub(super) fn s3_client(
    config: &S3Config,
    silence_max: Duration,
    connector: Option<FixedConnector>,
) -> Result<AmazonS3, Error> {
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&config.bucket)
        .with_retry(retry_config(silence_max))
        .with_client_options(client_options(silence_max, config.endpoint.as_deref()));
    for (name, value) in &config.credentials {
        // Variables that the client does not use are ignored.
        if let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            builder = builder.with_config(key, value.reveal());
        }
    }
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    let built = builder.build();
    built.map_err(|error| invalid_config("the S3 bucket", &error))
}

/// Builds a client for a Google Cloud Storage bucket.
pub(super) fn gcs_client(config: &GcsConfig, silence_max: Duration) -> Result<GoogleCloudStorage, Error> {
    let identity = match (&config.credentials, &config.endpoint) {
        (Some(file), _) => GcsIdentity::File(file.clone()),
        (None, Some(_)) => GcsIdentity::Anonymous,
        (None, None) => GcsIdentity::MetadataServer,
    };
    gcs_client_as(&config.bucket, config.endpoint.as_deref(), &identity, silence_max, None)
}

/// Builds a client for a Google Cloud Storage bucket with given credentials.
pub(super) fn gcs_client_as(
    bucket: &str,
    endpoint: Option<&str>,
    identity: &GcsIdentity,
    silence_max: Duration,
    connector: Option<FixedConnector>,
) -> Result<GoogleCloudStorage, Error> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(bucket)
        .with_retry(retry_config(silence_max))
        .with_client_options(client_options(silence_max, endpoint));
    if let Some(connector) = connector {
        builder = builder.with_http_connector(connector);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_base_url(endpoint.trim_end_matches('/'));
    }
    builder = match identity {
        GcsIdentity::File(file) => builder.with_application_credentials(file.to_string_lossy()),
        GcsIdentity::Key(key) => builder.with_service_account_key(key.reveal()),
        GcsIdentity::Token(token) => builder.with_bearer_token(token.reveal()),
        // An emulator accepts any token; with one, the client does not query the metadata server.
        GcsIdentity::Anonymous => builder.with_bearer_token("anybody"),
        GcsIdentity::MetadataServer => builder,
    };
    let built = builder.build();
    built.map_err(|error| invalid_config("the Google Cloud Storage bucket", &error))
}

fn retry_config(silence_max: Duration) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: RETRY_WAIT_MIN,
            max_backoff: RETRY_WAIT_MAX,
            base: 2.0,
        },
        max_retries: RETRIES_MAX,
        retry_timeout: silence_max * 3,
    }
}

fn client_options(silence_max: Duration, endpoint: Option<&str>) -> ClientOptions {
    // Installs the crypto provider for TLS; fails harmlessly if one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let in_clear = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
    ClientOptions::new()
        .with_allow_http(in_clear)
        .with_connect_timeout(CONNECT_TIMEOUT.min(silence_max))
        .with_timeout_disabled()
        .with_read_timeout(silence_max)
}

fn invalid_config(setting: &'static str, error: &object_store::Error) -> Error {
    Error::InvalidConfig {
        subject: setting,
        problem: error.to_string(),
    }
}
