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
const STREAM_NAME: &str = "NOETL_EVENTS";
/// Prefix of the subjects of events.
const EVENT_SUBJECT: &str = "noetl.events";
/// Prefix of the subjects of notifications.
const NOTIFICATION_SUBJECT: &str = "noetl.hints";
/// Timeout for the acknowledgement of an event.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the stream detects duplicates of an event by its ID.
const DEDUP_WINDOW: Duration = Duration::from_secs(120);
/// Maximum delay that a missed notification can cause.
const NOTIFICATION_WAIT_MAX: Duration = Duration::from_secs(1);

/// The bus on NATS.
pub struct NatsBus {
    client: async_nats::Client,
    events: jetstream::Context,
    notification_received: Arc<Notify>,
}

impl NatsBus {
    /// Creates a bus for this URL; the server need not be reachable yet.
    pub async fn connect(url: &str) -> Result<Self, BusError> {
        let client = ConnectOptions::new()
            .name("noetl")
            .retry_on_initial_connect()
            .connect(url)
            .await
            .map_err(bus_error)?;
        let mut events = jetstream::new(client.clone());
        events.set_timeout(ACK_TIMEOUT);
        let received = Arc::new(Notify::new());
        tokio::spawn(forward_notifications(client.clone(), Arc::downgrade(&received)));
        Ok(Self {
            client,
            events,
            notification_received: received,
        })
    }

    /// Creates the stream if it does not exist: on first use, or after NATS was wiped.
    async fn create_stream(&self) -> Result<(), BusError> {
        let config = Config {
            name: STREAM_NAME.to_owned(),
            subjects: vec![format!("{EVENT_SUBJECT}.>")],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            duplicate_window: DEDUP_WINDOW,
            ..Config::default()
        };
        let created = self.events.get_or_create_stream(config).await;
        created.map(drop).map_err(|error| self.server_error(error))
    }

    /// Wraps an error of NATS; if the NATS version is too old, the error says so.
    fn server_error(&self, error: impl std::error::Error + Send + Sync + 'static) -> BusError {
        match nats_version::check_version(&self.client.server_info().version) {
            Some(problem) => bus_error(std::io::Error::other(format!("{problem} ({error})"))),
            None => bus_error(error),
        }
    }

    async fn send_events(&self, events: &[Publication]) -> Result<(), BusError> {
        let mut acknowledgements = Vec::with_capacity(events.len());
        for event in events {
            let mut headers = HeaderMap::new();
            headers.insert("execution_id", event.execution_id.to_string());
            headers.insert("Nats-Msg-Id", event.event_id.to_string());
            let subject = format!("{EVENT_SUBJECT}.{}", event.event_type);
            let payload = event.text.clone().into();
            let sent = self.events.publish_with_headers(subject, headers, payload);
            acknowledgements.push(sent.await.map_err(|error| self.server_error(error))?);
        }
        for acknowledgement in acknowledgements {
            acknowledgement.await.map_err(|error| self.server_error(error))?;
        }
        Ok(())
    }
}

/// Converts notifications to local wake-ups until the bus is dropped.
async fn forward_notifications(client: async_nats::Client, received: std::sync::Weak<Notify>) {
    let Ok(mut notifications) = client.subscribe(format!("{NOTIFICATION_SUBJECT}.>")).await else {
        return;
    };
    while notifications.next().await.is_some() {
        let Some(received) = received.upgrade() else {
            return;
        };
        received.notify_one();
    }
}

#[async_trait]
impl Bus for NatsBus {
    async fn publish(&self, events: &[Publication]) -> Result<(), BusError> {
        if self.send_events(events).await.is_ok() {
            return Ok(());
        }
        // Without the stream nothing is acknowledged. The stream discards events of the first attempt that arrive
        // again.
        self.create_stream().await?;
        self.send_events(events).await
    }

    async fn notify_pool(&self, pool: &Name) {
        let subject = format!("{NOTIFICATION_SUBJECT}.{}", subject_token(pool));
        // A lost notification is harmless: `wait_for_notification` also returns after `NOTIFICATION_WAIT_MAX`.
        let _ = self.client.publish(subject, bytes::Bytes::new()).await;
    }

    async fn wait_for_notification(&self) {
        tokio::select! {
            () = self.notification_received.notified() => {}
            () = tokio::time::sleep(NOTIFICATION_WAIT_MAX) => {}
        }
    }
}

/// Converts a pool name to one token of a subject.
fn subject_token(pool: &Name) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    pool.as_str().chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

fn bus_error(error: impl std::error::Error + Send + Sync + 'static) -> BusError {
    BusError(Box::new(error))
}
