//! One connection for both kinds of bucket, made when it is first needed.

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

/// Waits before each further try; as many tries as waits, and one.
const WAITS: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// A client and what is asked through it.
struct Connected {
    client: Client,
    context: Context,
}

/// A connection to NATS.
pub(crate) struct Connection {
    config: NatsConfig,
    pub(super) silence_max: Duration,
    connected: OnceCell<Connected>,
}

impl Connection {
    /// Nothing is asked yet.
    pub(crate) fn new(config: NatsConfig, silence_max: Duration) -> Self {
        Self {
            config,
            silence_max,
            connected: OnceCell::new(),
        }
    }

    /// The name of both buckets.
    pub(super) fn bucket(&self) -> &str {
        &self.config.bucket
    }

    /// Where it is, for people.
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

    /// NATS does not do as it is asked, for now.
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

/// How often something is tried.
pub(super) struct Tries(std::slice::Iter<'static, Duration>);

impl Tries {
    pub(super) fn new() -> Self {
        Self(WAITS.iter())
    }

    /// Waits for the next try, if this error may pass and there is one.
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
