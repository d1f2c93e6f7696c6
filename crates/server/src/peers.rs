//! Other servers on the same store, and forwarding of requests to them.
//!
//! Forwarding only makes requests faster; the store's version check alone decides what may be written.

use std::collections::HashMap;
use std::sync::Mutex;

use model::command::ClaimId;
use model::id::WorkerId;
use store::OwnerId;
use wire::api::{BuildCommandsRequest, BuildCommandsResponse};
use wire::{AccessToken, CallError, ClaimedCommand, Client, HttpTransport, ReportRequest, ReportResponse, Transport};

use crate::ServerShared;

/// Maximum number of cached clients.
const CLIENTS_MAX: usize = 64;

/// HTTP clients of the other servers, by address.
pub(crate) struct PeerClients {
    secret: AccessToken,
    clients: Mutex<HashMap<String, Client>>,
}

/// State of the process that owns an execution, if it is not this one.
pub(crate) enum OwnerStatus {
    /// A server that accepts requests.
    Reachable(Client),
    /// A live process without a reachable address; it only reads messages in the store.
    Unreachable,
    /// The process is dead.
    Dead,
}

impl PeerClients {
    /// Creates clients that authenticate with the secret in the shared store.
    pub(crate) fn new(secret: &str) -> Self {
        Self {
            secret: AccessToken::new(secret),
            clients: Mutex::default(),
        }
    }

    fn client(&self, address: &str) -> Result<Client, CallError> {
        let mut clients = self.clients.lock().expect("no holder of the clients lock panics");
        if let Some(client) = clients.get(address) {
            return Ok(client.clone());
        }
        let client = Client::new(&[address.to_owned()], Some(self.secret.clone()))?.with_forwarding();
        if clients.len() >= CLIENTS_MAX {
            // Servers restart under new addresses. Clients of live servers are created again on their next use.
            clients.clear();
        }
        clients.insert(address.to_owned(), client.clone());
        Ok(client)
    }
}

/// Determines the state of an owner that is not this process.
pub(crate) async fn owner_status(shared: &ServerShared, owner: &OwnerId) -> Result<OwnerStatus, store::Error> {
    let peers = shared.store.processes().await?;
    let Some(peer) = peers.into_iter().find(|peer| peer.owner == *owner) else {
        return Ok(OwnerStatus::Dead);
    };
    if !peer.is_alive {
        return Ok(OwnerStatus::Dead);
    }
    let client_and_address = shared.peer_clients.as_ref().zip(peer.address);
    let client = client_and_address.and_then(|(peers, address)| peers.client(&address).ok());
    Ok(client.map_or(OwnerStatus::Unreachable, OwnerStatus::Reachable))
}

/// Forwards a report to the owner of its execution.
pub(crate) async fn forward_report(client: Client, report: ReportRequest) -> Result<ReportResponse, wire::Error> {
    HttpTransport::new(client).report(report).await
}

/// Requests from the owner what a worker of this server needs to run commands.
pub(crate) async fn fetch_commands(
    client: &Client,
    worker: &WorkerId,
    claims: &[ClaimId],
) -> Result<Vec<ClaimedCommand>, CallError> {
    let claims = claims.iter();
    let request = BuildCommandsRequest {
        worker: worker.clone(),
        commands: claims.map(|claim| (claim.command, claim.lease_epoch)).collect(),
    };
    let response: BuildCommandsResponse = client.post("/api/cluster/build", &request).await?;
    Ok(response.commands)
}
