//! Resolves addresses of results through the server, for tools and loops.

use std::sync::Arc;

use async_trait::async_trait;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::Resolved;
use tools::{Access, References};

use crate::hand::{Hand, Trouble};
use crate::lease::Lease;
use crate::patience::Backoff;
use crate::worker::Shared;
use crate::{keep, load};

/// Returns the access to stored results for a tool that this command calls.
pub(crate) fn access(hand: &Hand) -> Access {
    Access {
        bodies: keep::bodies(hand),
        references: Arc::new(Lookup {
            shared: hand.shared.clone(),
            lease: hand.lease.clone(),
        }),
        execution: hand.execution(),
    }
}

/// Resolves an address.
pub(crate) async fn found(hand: &Hand, uri: &str) -> Result<Resolved, Trouble> {
    let transport = &hand.shared.transport;
    load::patiently(hand, || transport.look_up(uri)).await
}

/// Resolves addresses; retries until the server responds or the worker is stopped.
struct Lookup {
    shared: Arc<Shared>,
    lease: Arc<Lease>,
}

#[async_trait]
impl References for Lookup {
    async fn look_up(&self, uri: &str) -> Result<Resolved, TaskError> {
        let mut backoff = Backoff::default();
        loop {
            match self.shared.transport.look_up(uri).await {
                Ok(found) => return Ok(found),
                Err(wire::Error::Unavailable(error)) => {
                    tracing::debug!(%error, "server unavailable; retrying address lookup");
                    tokio::select! {
                        () = backoff.wait() => {}
                        () = self.lease.stopped().cancelled() => {
                            let message = "cancelled";
                            return Err(TaskError::new(ErrorKind::Cancelled, "CANCELLED", message));
                        }
                    }
                }
                Err(error) => {
                    let code = "REFERENCE_NOT_AVAILABLE";
                    let error = TaskError::new(ErrorKind::Storage, code, error.to_string());
                    return Err(error.with("ref", uri));
                }
            }
        }
    }
}
