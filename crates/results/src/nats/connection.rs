//! One connection for both kinds of buckets, opened on first use.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectOptions};
use model::nats_version;
use tokio::sync::OnceCell;
use tokio::time::sleep;

use crate::Error;
use crate::config::NatsConfig;

/// Delays before retries; the number of attempts is one more.
const WAITS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// A client and its JetStream context.
struct Connected {
    client: Client,
    context: Context,
}

/// Connection to NATS.
pub(crate) struct Connection {
    config: NatsConfig,
    pub(super) silence_max: Duration,
    connected: OnceCell<Connected>,
}

impl Connection {
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
    pub(super) fn place(&self) -> String {
        format!("NATS bucket {}", self.config.bucket)
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
            Ok::<_, async_nats::ConnectError>(Connected { client, context })
        };
        let connected = self.connected.get_or_try_init(connect).await;
        let connected = connected.map_err(|error| self.away(error))?;
        Ok(&connected.context)
    }

    /// Converts an error of NATS to `Error::Unavailable`; if the NATS version is too old, the error says so.
    pub(super) fn away(&self, error: impl StdError + Send + Sync + 'static) -> Error {
        let connected = self.connected.get();
        let version = connected.map(|connected| connected.client.server_info().version);
        let source = match version.and_then(|version| nats_version::problem(&version)) {
            Some(problem) => io::Error::other(format!("{problem} ({error})")),
            None => io::Error::other(error),
        };
        Error::Unavailable {
            file: self.place().into(),
            source,
        }
    }
}

/// Remaining retries.
pub(super) struct Tries(std::slice::Iter<'static, Duration>);

impl Tries {
    pub(super) fn new() -> Self {
        Self(WAITS.iter())
    }

    /// Waits before the next attempt; returns the error if it is not transient or no attempt is left.
    pub(super) async fn again(&mut self, error: Error) -> Result<(), Error> {
        match self.0.next() {
            Some(wait) if matches!(error, Error::Unavailable { .. }) => {
                sleep(*wait).await;
                Ok(())
            }
            _ => Err(error),
        }
    }
}
