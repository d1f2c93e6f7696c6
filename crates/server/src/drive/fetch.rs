//! Fetches the data of commands whose executions other servers own, for workers of this server that claimed them.

use std::collections::HashMap;
use std::time::Duration;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use store::{OwnerId, Priority};
use wire::Claimed;

use crate::Shared;
use crate::control;
use crate::peers::{self, Driver};

/// Pause before the next claim if no owner returned a command.
const PAUSE: Duration = Duration::from_millis(100);

/// A command and the epoch of its claim.
type Claim = (CommandId, LeaseEpoch);

/// Result of the requests to the owners.
pub(super) struct Fetched {
    /// Commands with their data.
    pub(super) ready: Vec<Claimed>,
    /// Commands whose owners did not respond, or that have ended.
    pub(super) missed: Vec<Claim>,
}

/// Requests the data of claimed commands from the servers that own their executions.
pub(super) async fn fetch(shared: &Shared, worker: &WorkerId, commands: Vec<Claim>) -> Fetched {
    let mut fetched = Fetched {
        ready: Vec::new(),
        missed: Vec::new(),
    };
    for (owner, commands) in by_owner(shared, commands).await {
        let ready = match owner {
            Some(owner) => ask(shared, &owner, worker, &commands).await,
            None => Vec::new(),
        };
        let is_ready =
            |command: &CommandId| ready.iter().any(|claimed| claimed.command.id == *command);
        let missed = commands.into_iter();
        fetched
            .missed
            .extend(missed.filter(|(command, _)| !is_ready(command)));
        fetched.ready.extend(ready);
    }
    if fetched.ready.is_empty() {
        tokio::time::sleep(PAUSE).await;
    }
    fetched
}

/// Groups the commands by owner; `None` for executions without another owner.
async fn by_owner(shared: &Shared, commands: Vec<Claim>) -> HashMap<Option<OwnerId>, Vec<Claim>> {
    let mut by_owner: HashMap<Option<OwnerId>, Vec<Claim>> = HashMap::new();
    for (command, epoch) in commands {
        let row = shared.store.execution(command.execution).await;
        let owner = row.ok().flatten().and_then(|row| row.owner);
        let owner = owner.filter(|owner| *owner != shared.owner);
        by_owner.entry(owner).or_default().push((command, epoch));
    }
    by_owner
}

/// Requests commands from one owner. If it is dead, its executions are adopted and the next claim finds them here.
async fn ask(
    shared: &Shared,
    owner: &OwnerId,
    worker: &WorkerId,
    commands: &[Claim],
) -> Vec<Claimed> {
    match peers::driver(shared, owner).await {
        Ok(Driver::Reachable(client)) => {
            let built = peers::build(&client, worker, commands.to_vec()).await;
            built.unwrap_or_else(|error| {
                tracing::warn!(%owner, %error, "failed to fetch commands from peer server");
                Vec::new()
            })
        }
        Ok(Driver::Dead) => {
            for (command, _) in commands {
                if let Err(error) =
                    control::adopt(shared, command.execution, Priority::Normal).await
                {
                    tracing::warn!(%command, %error, "failed to adopt execution of a dead server");
                }
            }
            Vec::new()
        }
        Ok(Driver::Silent) | Err(_) => Vec::new(),
    }
}
