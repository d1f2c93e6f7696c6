//! Fetches the data of commands whose executions other servers own, for workers of this server that claimed them.

use std::collections::HashMap;
use std::time::Duration;

use model::command::ClaimId;
use model::id::WorkerId;
use store::{OwnerId, Priority};
use wire::ClaimedCommand;

use crate::ServerShared;
use crate::control;
use crate::peers::{self, OwnerStatus};

/// Pause before the next claim if no owner returned a command.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Result of the requests to the owners.
pub(super) struct RemoteCommands {
    /// Commands with their data.
    pub(super) commands: Vec<ClaimedCommand>,
    /// Commands whose owners did not respond, or that have ended.
    pub(super) missing: Vec<ClaimId>,
}

/// Requests the data of claimed commands from the servers that own their executions.
pub(super) async fn fetch_remote_commands(
    shared: &ServerShared,
    worker: &WorkerId,
    claims: Vec<ClaimId>,
) -> RemoteCommands {
    let mut fetched = RemoteCommands {
        commands: Vec::new(),
        missing: Vec::new(),
    };
    for (owner, claims) in group_by_owner(shared, claims).await {
        let commands = match owner {
            Some(owner) => request_from_owner(shared, &owner, worker, &claims).await,
            None => Vec::new(),
        };
        let is_fetched = |claim: &ClaimId| commands.iter().any(|claimed| claimed.command.id == claim.command);
        let missing = claims.into_iter().filter(|claim| !is_fetched(claim));
        fetched.missing.extend(missing);
        fetched.commands.extend(commands);
    }
    if fetched.commands.is_empty() {
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    fetched
}

/// Groups the claims by the owner of their executions; `None` for executions without another owner.
async fn group_by_owner(shared: &ServerShared, claims: Vec<ClaimId>) -> HashMap<Option<OwnerId>, Vec<ClaimId>> {
    let mut by_owner: HashMap<Option<OwnerId>, Vec<ClaimId>> = HashMap::new();
    for claim in claims {
        let row = shared.store.execution(claim.command.execution).await;
        let owner = row.ok().flatten().and_then(|row| row.owner);
        let owner = owner.filter(|owner| *owner != shared.owner);
        by_owner.entry(owner).or_default().push(claim);
    }
    by_owner
}

/// Requests commands from one owner. If it is dead, its executions are adopted and the next claim finds them here.
async fn request_from_owner(
    shared: &ServerShared,
    owner: &OwnerId,
    worker: &WorkerId,
    claims: &[ClaimId],
) -> Vec<ClaimedCommand> {
    match peers::owner_status(shared, owner).await {
        Ok(OwnerStatus::Reachable(client)) => {
            let commands = peers::fetch_commands(&client, worker, claims).await;
            commands.unwrap_or_else(|error| {
                tracing::warn!(%owner, %error, "failed to fetch commands from peer server");
                Vec::new()
            })
        }
        Ok(OwnerStatus::Dead) => {
            for ClaimId { command, .. } in claims {
                if let Err(error) = control::adopt(shared, command.execution, Priority::Normal).await {
                    tracing::warn!(%command, %error, "failed to adopt execution of a dead server");
                }
            }
            Vec::new()
        }
        Ok(OwnerStatus::Unreachable) | Err(_) => Vec::new(),
    }
}
