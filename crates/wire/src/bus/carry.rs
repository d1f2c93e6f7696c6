//! What every bus promises.

use async_trait::async_trait;
use model::id::Name;

use crate::bus::Publication;

/// Why something could not be said on the bus.
#[derive(Debug, thiserror::Error)]
#[error("the bus cannot be used")]
pub struct BusError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// What carries hints and events.
#[async_trait]
pub trait Bus: Send + Sync {
    /// Publishes events in order; when this returns each is in the stream. The same event again is one event.
    async fn publish(&self, events: &[Publication]) -> Result<(), BusError>;

    /// Says that there is work for a pool; nobody may hear it.
    async fn offer(&self, pool: &Name);

    /// Resolves when someone says that there is work, or the bus may have missed it.
    async fn offered(&self);
}
