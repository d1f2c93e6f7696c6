//! Fetching: workers here claim commands of executions that other servers drive, and need what it takes to run them.

use std::collections::HashMap;
use std::time::Duration;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use store::{OwnerId, Priority};
use wire::Claimed;

use crate::Shared;
use crate::control;
use crate::peers::{self, Driver};

/// How long nothing is claimed anew when no driver could be asked.
const PAUSE: Duration = Duration::from_millis(100);

/// A command and the claim it is held under.
type Claim = (CommandId, LeaseEpoch);

/// What came of asking.
pub(super) struct Fetched {
    /// Commands that can run.
    pub(super) ready: Vec<Claimed>,
    /// Commands whose drivers could not be asked, or that are over.
    pub(super) missed: Vec<Claim>,
}

/// Asks the drivers of executions elsewhere for what it takes to run their commands.
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

/// The commands of each driver other than this server.
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

/// Asks one driver; what a dead one drove is taken over, and found here the next time.
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
                tracing::warn!(%owner, %error, "a server cannot be asked for its commands");
                Vec::new()
            })
        }
        Ok(Driver::Dead) => {
            for (command, _) in commands {
                if let Err(error) =
                    control::adopt(shared, command.execution, Priority::Normal).await
                {
                    tracing::warn!(%command, %error, "cannot take over from a dead server");
                }
            }
            Vec::new()
        }
        Ok(Driver::Silent) | Err(_) => Vec::new(),
    }
}
