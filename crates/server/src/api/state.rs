//! State that every handler can use.

use std::sync::Arc;

use store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::Server;
use crate::api::access::{Access, Tokens, digest};
use crate::api::guard::Hosts;
use crate::api::leases::LeaseSeal;
use crate::api::workers::Workers;
use crate::transport::InProcess;

/// Configuration of the API.
#[derive(Clone)]
pub struct ApiConfig {
    /// Whether access tokens are required.
    pub access: Access,
    /// Whether only this machine can connect.
    pub is_loopback: bool,
    /// Additional host names to accept in the Host header.
    pub hosts: Vec<String>,
    /// Shared secret with which servers on the same store authenticate to each other.
    pub cluster_secret: Option<String>,
    /// Output of tasks.
    pub logs: Arc<dyn ::results::TaskLogs>,
}

/// Maximum number of open streams.
const STREAMS_MAX: usize = 1_024;

/// State that every handler can use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) access: Access,
    /// Whether this server terminates TLS itself.
    pub(crate) is_encrypted: bool,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) leases: Arc<LeaseSeal>,
    /// Hash of the cluster secret.
    pub(crate) cluster: Option<[u8; 32]>,
    pub(crate) metrics: Arc<crate::metrics::Rendered>,
    /// Cancelled when the server shuts down: long polls then return what they have.
    pub(crate) closing: CancellationToken,
    pub(crate) logs: Arc<dyn ::results::TaskLogs>,
    /// Limits the number of open streams.
    pub(crate) streams: Arc<Semaphore>,
}

impl Api {
    pub(crate) fn new(server: Server, config: &ApiConfig, closing: CancellationToken) -> Self {
        Self {
            closing,
            access: config.access,
            is_encrypted: false,
            hosts: Arc::new(Hosts::new(config.is_loopback, &config.hosts)),
            tokens: Arc::default(),
            workers: Arc::default(),
            leases: Arc::default(),
            cluster: config.cluster_secret.as_deref().map(digest),
            metrics: Arc::new(crate::metrics::Rendered::new()),
            logs: Arc::clone(&config.logs),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            server,
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.server.shared.store
    }

    /// Transport for calls of workers.
    pub(crate) fn transport(&self) -> InProcess {
        self.transport_for(false)
    }

    /// Transport for a call that another server may have forwarded.
    pub(crate) fn transport_for(&self, is_passed_on: bool) -> InProcess {
        let shared = self.server.shared.clone();
        if is_passed_on {
            InProcess::passed_on(shared)
        } else {
            InProcess::new(shared)
        }
    }
}
