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
use wire::api::{Execution, Started};
use wire::{CallError, Client};

use crate::e2e::playbooks::Recipe;

/// Pause between two attempts of a request.
const AGAIN: Duration = Duration::from_millis(200);

/// A run that the load started.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The run.
    pub id: ExecutionId,
    /// Its playbook.
    pub recipe: Recipe,
    /// Its number within the load.
    pub n: u64,
}

/// URLs of the services that see effects.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The witness.
    pub witness: &'a str,
    /// The tally.
    pub tally: &'a str,
}

/// Registers every playbook in the catalog.
pub(crate) async fn register(client: &Client) {
    for (path, text) in Recipe::catalog() {
        let body = json!({"content": text, "path": path});
        let registered: Result<Value, CallError> =
            say(client, "/api/catalog/register", &body).await;
        registered.unwrap_or_else(|error| panic!("cannot register {path}: {error}"));
    }
}

/// Starts a run; returns when it is durable.
pub async fn begin(client: &Client, recipe: Recipe, n: u64, seen: Seen<'_>) -> Begun {
    let body = json!({
        "path": recipe.path(),
        "payload": {"witness": seen.witness, "tally": seen.tally, "n": n},
        "dedup": format!("load-{n}"),
    });
    let started: Result<Started, CallError> = say(client, "/api/execute", &body).await;
    let started = started.unwrap_or_else(|error| panic!("cannot start {recipe:?} {n}: {error}"));
    Begun {
        id: started.execution_id,
        recipe,
        n,
    }
}

/// Sends the control requests of the recipe to a run.
pub(crate) async fn attend(client: &Client, begun: Begun) {
    let id = begun.id;
    match begun.recipe {
        Recipe::Signal => {
            tell(client, id, "signal/go", &json!({"who": begun.n})).await;
        }
        Recipe::Cancel | Recipe::CancelBusy => {
            tokio::time::sleep(Duration::from_millis(begun.n % 7 * 300)).await;
            tell(
                client,
                id,
                "cancel",
                &json!({"reason": "the recipe cancels this run"}),
            )
            .await;
        }
        Recipe::Pause => {
            tell(client, id, "pause", &json!({})).await;
            // The owner of the run may not have received a pause yet, although the request succeeded.
            if stands(client, id, |status| status != RunStatus::Running).await == RunStatus::Paused
            {
                tokio::time::sleep(Duration::from_secs(1)).await;
                while stands(client, id, |_| true).await == RunStatus::Paused {
                    tell(client, id, "resume", &json!({})).await;
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
        _ => {}
    }
}

/// Waits until a run has the wanted status; returns the status.
async fn stands(client: &Client, id: ExecutionId, fits: impl Fn(RunStatus) -> bool) -> RunStatus {
    loop {
        let asked: Result<Execution, CallError> =
            client.get(&format!("/api/executions/{id}/status")).await;
        if let Ok(run) = asked
            && fits(run.status)
        {
            return run.status;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Sends a control request to a run. A rejection means that it was delivered before, or that the run has finished.
async fn tell(client: &Client, id: ExecutionId, word: &str, body: &Value) {
    let path = format!("/api/executions/{id}/{word}");
    let _: Result<Value, CallError> = say(client, &path, body).await;
}

/// Repeats a request until it gets a response.
async fn say<B: Serialize + Sync, T: DeserializeOwned>(
    client: &Client,
    path: &str,
    body: &B,
) -> Result<T, CallError> {
    loop {
        match client.post(path, body).await {
            Err(error) if error.is_passing() => tokio::time::sleep(AGAIN).await,
            answer => return answer,
        }
    }
}
