//! The load: starts runs and sends them control requests while faults are injected.
//!
//! Every request is retried until it gets a response, like a careful client would: starts carry an idempotency key, and
//! a rejected control request counts as delivered, because it may have been sent before.

use std::time::Duration;

use model::id::ExecutionId;
use model::status::RunStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::api::{ExecuteResponse, ExecutionSummary};
use wire::{CallError, Client};

use crate::e2e::playbooks::Recipe;

/// Pause between two attempts of a request.
const RETRY_DELAY: Duration = Duration::from_millis(200);

/// A run that the load started.
#[derive(Debug, Clone, Copy)]
pub struct StartedExecution {
    /// The run.
    pub id: ExecutionId,
    /// Its playbook.
    pub recipe: Recipe,
    /// Its number within the load.
    pub n: u64,
}

/// URLs of the services that record effects.
#[derive(Debug, Clone, Copy)]
pub struct EffectUrls<'a> {
    /// URL of the [`EffectRecorder`](crate::e2e::EffectRecorder).
    pub recorder: &'a str,
    /// URL of the database of the [`EffectTable`](crate::e2e::EffectTable).
    pub table: &'a str,
}

/// Registers every playbook in the catalog.
pub(crate) async fn register_playbooks(client: &Client) {
    for (path, text) in Recipe::catalog() {
        let body = json!({"content": text, "path": path});
        let registered: Result<Value, CallError> = post_with_retry(client, "/api/catalog/register", &body).await;
        registered.unwrap_or_else(|error| panic!("cannot register {path}: {error}"));
    }
}

/// Starts a run; returns when it is durable.
pub async fn start_execution(client: &Client, recipe: Recipe, n: u64, urls: EffectUrls<'_>) -> StartedExecution {
    let body = json!({
        "path": recipe.path(),
        "payload": {"recorder": urls.recorder, "tally": urls.table, "n": n},
        "dedup": format!("load-{n}"),
    });
    let started: Result<ExecuteResponse, CallError> = post_with_retry(client, "/api/execute", &body).await;
    let started = started.unwrap_or_else(|error| panic!("cannot start {recipe:?} {n}: {error}"));
    StartedExecution {
        id: started.execution_id,
        recipe,
        n,
    }
}

/// Sends the control requests of the recipe to a run.
pub(crate) async fn apply_recipe(client: &Client, execution: StartedExecution) {
    let id = execution.id;
    match execution.recipe {
        Recipe::Signal => {
            send_control(client, id, "signal/go", &json!({"who": execution.n})).await;
        }
        Recipe::Cancel | Recipe::CancelBusy => {
            tokio::time::sleep(Duration::from_millis(execution.n % 7 * 300)).await;
            send_control(client, id, "cancel", &json!({"reason": "the recipe cancels this run"})).await;
        }
        Recipe::Pause => {
            send_control(client, id, "pause", &json!({})).await;
            // The owner of the run may not have received a pause yet, although the request succeeded.
            if wait_for_status(client, id, |status| status != RunStatus::Running).await == RunStatus::Paused {
                tokio::time::sleep(Duration::from_secs(1)).await;
                while wait_for_status(client, id, |_| true).await == RunStatus::Paused {
                    send_control(client, id, "resume", &json!({})).await;
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            }
        }
        _ => {}
    }
}

/// Waits until a run has the wanted status; returns the status.
async fn wait_for_status(client: &Client, id: ExecutionId, matches: impl Fn(RunStatus) -> bool) -> RunStatus {
    loop {
        let response: Result<ExecutionSummary, CallError> = client.get(&format!("/api/executions/{id}/status")).await;
        if let Ok(run) = response
            && matches(run.status)
        {
            return run.status;
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

/// Sends a control request to a run. A rejection means that it was delivered before, or that the run has finished.
async fn send_control(client: &Client, id: ExecutionId, action: &str, body: &Value) {
    let path = format!("/api/executions/{id}/{action}");
    let _: Result<Value, CallError> = post_with_retry(client, &path, body).await;
}

/// Repeats a request until it gets a response.
async fn post_with_retry<B: Serialize + Sync, T: DeserializeOwned>(
    client: &Client,
    path: &str,
    body: &B,
) -> Result<T, CallError> {
    loop {
        match client.post(path, body).await {
            Err(error) if error.is_transient() => tokio::time::sleep(RETRY_DELAY).await,
            response => return response,
        }
    }
}
