//! Peers: the other servers on the same store, and how one passes on what belongs to another.
//!
//! Passing on is advice for speed; what may be written, the store's version check alone decides.

use std::collections::HashMap;
use std::sync::Mutex;

use model::id::{CommandId, LeaseEpoch, WorkerId};
use store::OwnerId;
use wire::api::{BuildAnswer, BuildRequest};
use wire::{CallError, Claimed, Client, Receipt, Remote, Report, Token, Transport};

use crate::Shared;

/// So many addresses of other servers are remembered.
const CLIENTS_MAX: usize = 64;

/// The other servers, by address.
pub(crate) struct Peers {
    secret: Token,
    clients: Mutex<HashMap<String, Client>>,
}

/// Who drives an execution that this server does not.
pub(crate) enum Driver {
    /// A server that can be asked.
    Reachable(Client),
    /// A process that lives and cannot be asked; it hears messages in the store.
    Silent,
    /// Nobody: the process is dead.
    Dead,
}

impl Peers {
    /// Peers that know each other by a secret in their store.
    pub(crate) fn new(secret: &str) -> Self {
        Self {
            secret: Token::new(secret),
            clients: Mutex::default(),
        }
    }

    fn client(&self, address: &str) -> Result<Client, CallError> {
        let mut clients = self
            .clients
            .lock()
            .expect("no holder of the clients panics");
        if let Some(client) = clients.get(address) {
            return Ok(client.clone());
        }
        let client = Client::new(&[address.to_owned()], Some(self.secret.clone()))?.forwarding();
        if clients.len() >= CLIENTS_MAX {
            // Servers come and go under new addresses; those that are still there are met again.
            clients.clear();
        }
        clients.insert(address.to_owned(), client.clone());
        Ok(client)
    }
}

/// Who drives what this process does not.
pub(crate) async fn driver(shared: &Shared, owner: &OwnerId) -> Result<Driver, store::Error> {
    let peers = shared.store.peers().await?;
    let Some(peer) = peers.into_iter().find(|peer| peer.owner == *owner) else {
        return Ok(Driver::Dead);
    };
    if !peer.alive {
        return Ok(Driver::Dead);
    }
    let known = shared.peers.as_ref().zip(peer.address);
    let client = known.and_then(|(peers, address)| peers.client(&address).ok());
    Ok(client.map_or(Driver::Silent, Driver::Reachable))
}

/// Passes a report on to the driver of its execution.
pub(crate) async fn report(client: Client, report: Report) -> Result<Receipt, wire::Error> {
    Remote::new(client).report(report).await
}

/// What a worker here needs to run commands of an execution driven there.
pub(crate) async fn build(
    client: &Client,
    worker: &WorkerId,
    commands: Vec<(CommandId, LeaseEpoch)>,
) -> Result<Vec<Claimed>, CallError> {
    let request = BuildRequest {
        worker: worker.clone(),
        commands,
    };
    let answer: BuildAnswer = client.post("/api/cluster/build", &request).await?;
    Ok(answer.commands)
}
