//! The load: runs are asked for, and told things, whatever the cluster is going through.
//!
//! Every request is said again until it is answered, as a careful client would: starts carry a word that makes them
//! the same start, and a refusal of something said twice counts as having been heard.

use std::time::Duration;

use model::id::ExecutionId;
use model::status::RunStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use wire::api::{Execution, Started};
use wire::{CallError, Client};

use crate::e2e::playbooks::Recipe;

/// Between two tries of one request.
const AGAIN: Duration = Duration::from_millis(200);

/// A run that was asked for.
#[derive(Debug, Clone, Copy)]
pub struct Begun {
    /// The run.
    pub id: ExecutionId,
    /// What it is a run of.
    pub recipe: Recipe,
    /// Which run of the load.
    pub n: u64,
}

/// Where effects are seen: the URLs of a service and of a database.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// The witness.
    pub witness: &'a str,
    /// The tally.
    pub tally: &'a str,
}

/// Puts every playbook into the catalog.
pub(crate) async fn register(client: &Client) {
    for (path, text) in Recipe::catalog() {
        let body = json!({"content": text, "path": path});
        let registered: Result<Value, CallError> =
            say(client, "/api/catalog/register", &body).await;
        registered.unwrap_or_else(|error| panic!("{path} cannot be registered: {error}"));
    }
}

/// Starts a run; answers when it is durable.
pub async fn begin(client: &Client, recipe: Recipe, n: u64, seen: Seen<'_>) -> Begun {
    let body = json!({
        "path": recipe.path(),
        "payload": {"witness": seen.witness, "tally": seen.tally, "n": n},
        "dedup": format!("load-{n}"),
    });
    let started: Result<Started, CallError> = say(client, "/api/execute", &body).await;
    let started = started.unwrap_or_else(|error| panic!("{recipe:?} {n} is refused: {error}"));
    Begun {
        id: started.execution_id,
        recipe,
        n,
    }
}

/// Does to a run what its recipe asks for.
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
                &json!({"reason": "the load has seen enough"}),
            )
            .await;
        }
        Recipe::Pause => {
            tell(client, id, "pause", &json!({})).await;
            // A pause that was answered may still be on its way to the run's driver.
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

/// Waits until a run stands as asked for; answers how.
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

/// Tells a run something. A refusal means that it was heard before, or that the run has ended.
async fn tell(client: &Client, id: ExecutionId, word: &str, body: &Value) {
    let path = format!("/api/executions/{id}/{word}");
    let _: Result<Value, CallError> = say(client, &path, body).await;
}

/// Says something until it is answered.
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
