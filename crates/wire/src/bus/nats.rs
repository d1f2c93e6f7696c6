//! The bus on NATS: JetStream for events, plain subjects for hints. It may be away, restarted or wiped at any time.

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

/// The stream that holds the events.
const STREAM: &str = "NOETL_EVENTS";
/// Every event's subject begins so.
const SUBJECT: &str = "noetl.events";
/// Every hint's subject begins so.
const HINTS: &str = "noetl.hints";
/// How long an event may take to be acknowledged.
const ACKNOWLEDGED: Duration = Duration::from_secs(5);
/// How long the stream knows an event by its id.
const REMEMBERED: Duration = Duration::from_secs(120);
/// How long a missed hint can matter.
const MISSED: Duration = Duration::from_secs(1);

/// A bus on NATS.
pub struct Nats {
    client: async_nats::Client,
    events: jetstream::Context,
    hinted: Arc<Notify>,
}

impl Nats {
    /// A bus at this address; it need not be there yet.
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

    /// Makes the stream if it is not there: for the first time, or again after it was wiped.
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

    /// An error of the server; one that is too old is named as that.
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

/// Turns every hint into a wake-up, for as long as the bus is used.
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
        // Without its stream nothing is acknowledged; what was sent before is known by its id.
        self.make_stream().await?;
        self.send(events).await
    }

    async fn offer(&self, pool: &Name) {
        let subject = format!("{HINTS}.{}", subject_token(pool));
        // Nobody depends on a hint.
        let _ = self.client.publish(subject, bytes::Bytes::new()).await;
    }

    async fn offered(&self) {
        tokio::select! {
            () = self.hinted.notified() => {}
            () = tokio::time::sleep(MISSED) => {}
        }
    }
}

/// A pool's name as one token of a subject.
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
