//! Resolves addresses of results through the server, for tools and loops.

use std::sync::Arc;

use async_trait::async_trait;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::ResolvedRef;
use tools::{ReferenceResolver, ResultAccess};

use crate::backoff::RetryBackoff;
use crate::command_context::{CommandContext, WorkError};
use crate::lease::CommandLease;
use crate::worker::WorkerShared;
use crate::{load, store_results};

/// Returns the access to stored results for a tool that this command calls.
pub(crate) fn result_access(context: &CommandContext) -> ResultAccess {
    ResultAccess {
        body_store: store_results::tool_body_store(context),
        resolver: Arc::new(ServerReferences {
            shared: context.shared.clone(),
            lease: context.lease.clone(),
        }),
        execution: context.execution(),
    }
}

/// Resolves an address.
pub(crate) async fn look_up(context: &CommandContext, uri: &str) -> Result<ResolvedRef, WorkError> {
    let transport = &context.shared.transport;
    load::call_with_retry(context, || transport.resolve_ref(uri)).await
}

/// Resolves addresses; retries until the server responds or the worker is stopped.
struct ServerReferences {
    shared: Arc<WorkerShared>,
    lease: Arc<CommandLease>,
}

#[async_trait]
impl ReferenceResolver for ServerReferences {
    async fn resolve(&self, uri: &str) -> Result<ResolvedRef, TaskError> {
        let mut backoff = RetryBackoff::default();
        loop {
            match self.shared.transport.resolve_ref(uri).await {
                Ok(resolved) => return Ok(resolved),
                Err(wire::Error::Unavailable(error)) => {
                    tracing::debug!(%error, "server unavailable; retrying address lookup");
                    tokio::select! {
                        () = backoff.wait() => {}
                        () = self.lease.stop_token().cancelled() => {
                            let message = "cancelled";
                            return Err(TaskError::new(ErrorKind::Cancelled, "CANCELLED", message));
                        }
                    }
                }
                Err(error) => {
                    let code = "REFERENCE_NOT_AVAILABLE";
                    let error = TaskError::new(ErrorKind::Storage, code, error.to_string());
                    return Err(error.with_detail("ref", uri));
                }
            }
        }
    }
}
