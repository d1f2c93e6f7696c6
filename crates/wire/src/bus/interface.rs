//! The interface of a message bus.

use async_trait::async_trait;
use model::id::Name;

use crate::bus::Publication;

/// Why a message could not be published.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the message bus")]
pub struct BusError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Publishes events and notifications.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes events in order; returns when the stream has acknowledged all of them. Publishing an event again has
    /// no effect.
    async fn publish(&self, events: &[Publication]) -> Result<(), BusError>;

    /// Notifies servers and workers that a pool has work. The notification may be lost.
    async fn notify_pool(&self, pool: &Name);

    /// Returns when there may be work: after a notification, or after the maximum delay for a missed one.
    async fn wait_for_notification(&self);
}
