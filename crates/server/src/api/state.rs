//! What every handler has at hand.

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

/// How the API is set up.
#[derive(Clone)]
pub struct ApiConfig {
    /// Whether tokens are needed.
    pub access: Access,
    /// Whether only this machine can reach it.
    pub is_loopback: bool,
    /// Names that it answers to besides its own.
    pub hosts: Vec<String>,
    /// The secret that servers on the same store know each other by.
    pub cluster_secret: Option<String>,
    /// What tasks print.
    pub logs: Arc<dyn ::results::TaskLogs>,
}

/// So many streams are followed at once.
const STREAMS_MAX: usize = 1_024;

/// What every handler has at hand. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) server: Server,
    pub(crate) access: Access,
    /// Whether its connections are encrypted here, rather than before it or not at all.
    pub(crate) is_encrypted: bool,
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) tokens: Arc<Tokens>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) leases: Arc<LeaseSeal>,
    /// The hash of the cluster's secret.
    pub(crate) cluster: Option<[u8; 32]>,
    pub(crate) metrics: Arc<crate::metrics::Rendered>,
    /// Cancelled when the server closes: whoever waits is answered with what there is.
    pub(crate) closing: CancellationToken,
    pub(crate) logs: Arc<dyn ::results::TaskLogs>,
    /// Places for streams that are followed.
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

    /// How a worker's call reaches the drive.
    pub(crate) fn transport(&self) -> InProcess {
        self.transport_for(false)
    }

    /// The same for a call that another server may have passed on.
    pub(crate) fn transport_for(&self, is_passed_on: bool) -> InProcess {
        let shared = self.server.shared.clone();
        if is_passed_on {
            InProcess::passed_on(shared)
        } else {
            InProcess::new(shared)
        }
    }
}
