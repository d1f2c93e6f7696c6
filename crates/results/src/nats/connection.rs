//! One connection for both kinds of buckets, opened on first use.

use std::error::Error as StdError;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use model::nats_version;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;
use tokio::time::sleep;

use crate::Error;
use crate::config::NatsConfig;

/// Delays before retries; the number of attempts is one more.
const RETRY_WAITS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// A client and its JetStream context.
struct ConnectedClient {
    client: Client,
    context: Context,
}

/// Connection to NATS.
pub(crate) struct NatsConnection {
    config: NatsConfig,
    pub(super) silence_max: Duration,
    connected: OnceCell<ConnectedClient>,
}

impl NatsConnection {
    /// Creates a connection that is opened on first use.
    pub(crate) fn new(config: NatsConfig, silence_max: Duration) -> Self {
        Self {
            config,
            silence_max,
            connected: OnceCell::new(),
        }
    }

    /// Name of both buckets.
    pub(super) fn bucket(&self) -> &str {
        &self.config.bucket
    }

    /// Location for display.
    pub(super) fn location(&self) -> String {
        format!("NATS bucket {}", self.config.bucket)
    }

    /// The location of a body, for its reference.
    pub(super) fn body_location(&self, key: &str) -> Map<String, Value> {
        let fields = [("bucket", self.bucket()), ("key", key)];
        Map::from_iter(fields.map(|(name, value)| (name.to_owned(), Value::from(value))))
    }

    pub(super) fn corrupt_error(&self, reference: &ResultRef) -> Error {
        Error::Corrupt {
            uri: reference.uri.clone(),
            file: self.location().into(),
        }
    }

    pub(super) async fn context(&self) -> Result<&Context, Error> {
        let connect = async || {
            let client = ConnectOptions::new()
                .name("noetl")
                .retry_on_initial_connect()
                .request_timeout(Some(self.silence_max))
                .connect(self.config.url.reveal())
                .await?;
            let mut context = jetstream::new(client.clone());
            context.set_timeout(self.silence_max);
            Ok::<_, async_nats::ConnectError>(ConnectedClient { client, context })
        };
        let connected = self.connected.get_or_try_init(connect).await;
        let connected = connected.map_err(|error| self.unavailable_error(error))?;
        Ok(&connected.context)
    }

    /// Converts an error of NATS to `Error::Unavailable`; if the NATS version is too old, the error says so.
    pub(super) fn unavailable_error(&self, error: impl StdError + Send + Sync + 'static) -> Error {
        let connected = self.connected.get();
        let version = connected.map(|connected| connected.client.server_info().version);
        let source = match version.and_then(|version| nats_version::check_version(&version)) {
            Some(problem) => io::Error::other(format!("{problem} ({error})")),
            None => io::Error::other(error),
        };
        Error::Unavailable {
            file: self.location().into(),
            source,
        }
    }
}

/// A bucket that is looked up on first use and again after an error.
pub(super) struct BucketHandle<B>(Mutex<Option<B>>);

impl<B: Clone> BucketHandle<B> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the bucket; runs `open` unless it is cached.
    pub(super) async fn get(&self, open: impl AsyncFnOnce() -> Result<B, Error>) -> Result<B, Error> {
        if let Some(bucket) = self.lock().clone() {
            return Ok(bucket);
        }
        let bucket = open().await?;
        Ok(self.lock().insert(bucket).clone())
    }

    /// Repeats an operation while it fails with a transient error and retries are left.
    pub(super) async fn retry<T, F>(&self, mut operation: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut waits = RETRY_WAITS.iter();
        loop {
            let error = match operation().await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            // NATS may have been wiped, so the next operation looks up the bucket again.
            self.lock().take();
            match waits.next() {
                Some(wait) if matches!(error, Error::Unavailable { .. }) => sleep(*wait).await,
                _ => return Err(error),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<B>> {
        self.0.lock().expect("the lock is not poisoned")
    }
}

/// Key of a body in both kinds of buckets.
pub(super) fn body_key(sha256: &str) -> String {
    format!("bodies/{sha256}")
}
