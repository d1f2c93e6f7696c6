//! The bus on NATS: JetStream for events, core subjects for notifications. NATS may be down, restarted or wiped at any
//! time.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, RetentionPolicy, StorageType};
use async_nats::{ConnectOptions, HeaderMap, jetstream};
use async_trait::async_trait;
use futures_util::StreamExt;
use model::id::Name;
use model::nats_version;
use tokio::sync::Notify;

use crate::bus::{Bus, BusError, Publication};

/// Name of the stream for events.
const STREAM: &str = "NOETL_EVENTS";
/// Prefix of the subjects of events.
const SUBJECT: &str = "noetl.events";
/// Prefix of the subjects of notifications.
const HINTS: &str = "noetl.hints";
/// Timeout for the acknowledgement of an event.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// How long the stream detects duplicates of an event by its ID.
const REMEMBERED: Duration = Duration::from_secs(120);
/// Maximum delay that a missed notification can cause.
const MISSED: Duration = Duration::from_secs(1);

/// The bus on NATS.
pub struct Nats {
    client: async_nats::Client,
    events: jetstream::Context,
    hinted: Arc<Notify>,
}

impl Nats {
    /// Creates a bus for this URL; the server need not be reachable yet.
    pub async fn connect(url: &str) -> Result<Self, BusError> {
        let client = ConnectOptions::new()
            .name("noetl")
            .retry_on_initial_connect()
            .connect(url)
            .await
            .map_err(failed)?;
        let mut events = jetstream::new(client.clone());
        events.set_timeout(ACKNOWLEDGED);
        let hinted = Arc::new(Notify::new());
        tokio::spawn(listen(client.clone(), Arc::downgrade(&hinted)));
        Ok(Self {
            client,
            events,
            hinted,
        })
    }

    /// Creates the stream if it does not exist: on first use, or after NATS was wiped.
    async fn make_stream(&self) -> Result<(), BusError> {
        let config = Config {
            name: STREAM.to_owned(),
            subjects: vec![format!("{SUBJECT}.>")],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            duplicate_window: REMEMBERED,
            ..Config::default()
        };
        let made = self.events.get_or_create_stream(config).await;
        made.map(drop).map_err(|error| self.failed(error))
    }

    /// Wraps an error of NATS; if the NATS version is too old, the error says so.
    fn failed(&self, error: impl std::error::Error + Send + Sync + 'static) -> BusError {
        match nats_version::problem(&self.client.server_info().version) {
            Some(problem) => failed(std::io::Error::other(format!("{problem} ({error})"))),
            None => failed(error),
        }
    }

    async fn send(&self, events: &[Publication]) -> Result<(), BusError> {
        let mut acknowledgements = Vec::with_capacity(events.len());
        for event in events {
            let mut headers = HeaderMap::new();
            headers.insert("execution_id", event.execution_id.to_string());
            headers.insert("Nats-Msg-Id", event.event_id.to_string());
            let subject = format!("{SUBJECT}.{}", event.event_type);
            let payload = event.text.clone().into();
            let sent = self.events.publish_with_headers(subject, headers, payload);
            acknowledgements.push(sent.await.map_err(|error| self.failed(error))?);
        }
        for acknowledgement in acknowledgements {
            acknowledgement.await.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}

/// Converts notifications to local wake-ups until the bus is dropped.
async fn listen(client: async_nats::Client, hinted: std::sync::Weak<Notify>) {
    let Ok(mut hints) = client.subscribe(format!("{HINTS}.>")).await else {
        return;
    };
    while hints.next().await.is_some() {
        let Some(hinted) = hinted.upgrade() else {
            return;
        };
        hinted.notify_one();
    }
}

#[async_trait]
impl Bus for Nats {
    async fn publish(&self, events: &[Publication]) -> Result<(), BusError> {
        if self.send(events).await.is_ok() {
            return Ok(());
        }
        // Without the stream nothing is acknowledged. The stream discards events of the first attempt that arrive
        // again.
        self.make_stream().await?;
        self.send(events).await
    }

    async fn offer(&self, pool: &Name) {
        let subject = format!("{HINTS}.{}", subject_token(pool));
        // A lost notification is harmless: `offered` also returns after `MISSED`.
        let _ = self.client.publish(subject, bytes::Bytes::new()).await;
    }

    async fn offered(&self) {
        tokio::select! {
            () = self.hinted.notified() => {}
            () = tokio::time::sleep(MISSED) => {}
        }
    }
}

/// Converts a pool name to one token of a subject.
fn subject_token(pool: &Name) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    pool.as_str()
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> BusError {
    BusError(Box::new(error))
}
