//! State that every handler can use.

use std::sync::Arc;
use std::time::Duration;

use model::time::Time;
use store::Store;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use wire::api::StoreBackend;

use crate::Server;
use crate::api::access::{AccessMode, AccessTokenCache, token_digest};
use crate::api::guard::AllowedHosts;
use crate::api::leases;
use crate::api::rendered_events::EventPages;
use crate::api::run_lists::SharedRunLists;
use crate::api::shared_key::SharedKey;
use crate::api::web_session;
use crate::api::workers::WorkerSessions;
use crate::oidc::SingleSignOn;
use crate::transport::InProcessTransport;

/// Configuration of the API.
#[derive(Clone)]
pub struct ApiConfig {
    /// Whether access tokens are required.
    pub access: AccessMode,
    /// Whether only this machine can connect.
    pub is_loopback: bool,
    /// Additional host names to accept in the Host header.
    pub hosts: Vec<String>,
    /// Shared secret with which servers on the same store authenticate to each other.
    pub cluster_secret: Option<String>,
    /// Output of tasks.
    pub logs: Arc<dyn ::results::TaskLogs>,
    /// Settings of the process that the API shows.
    pub system: SystemConfig,
    /// Single sign-on, if it is configured.
    pub single_sign_on: Option<SingleSignOn>,
}

/// Settings of the process that the API shows. Addresses contain no passwords.
#[derive(Debug, Clone)]
pub struct SystemConfig {
    /// The database of the store.
    pub backend: StoreBackend,
    /// Directory, or host, port and database, of the store.
    pub store_location: Option<String>,
    /// Where results over 64 KiB are stored by default.
    pub result_location: Option<String>,
    /// Result stores that are configured besides the store itself.
    pub result_stores: Vec<String>,
    /// How long results are kept after the end of their run; `None` if this process does not delete them.
    pub retention: Option<Duration>,
    /// Address of the NATS server to which events are published.
    pub nats_address: Option<String>,
}

impl Default for SystemConfig {
    /// A store in a directory, without further settings.
    fn default() -> Self {
        Self {
            backend: StoreBackend::Sqlite,
            store_location: None,
            result_location: None,
            result_stores: Vec::new(),
            retention: None,
            nats_address: None,
        }
    }
}

/// Maximum number of open streams.
const STREAMS_MAX: usize = 1_024;

/// State that every handler can use. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiState {
    pub(crate) server: Server,
    pub(crate) access: AccessMode,
    /// Whether this server terminates TLS itself.
    pub(crate) is_encrypted: bool,
    pub(crate) hosts: Arc<AllowedHosts>,
    pub(crate) tokens: Arc<AccessTokenCache>,
    pub(crate) workers: Arc<WorkerSessions>,
    /// Seals lease epochs.
    pub(crate) lease_key: Arc<SharedKey>,
    /// Signs the cookies of the web client.
    pub(crate) web_session_key: Arc<SharedKey>,
    /// Hash of the cluster secret.
    pub(crate) cluster_secret_hash: Option<[u8; 32]>,
    pub(crate) metrics: Arc<crate::metrics::MetricsRenderer>,
    /// Cancelled when the server shuts down: long polls then return what they have.
    pub(crate) closing: CancellationToken,
    pub(crate) logs: Arc<dyn ::results::TaskLogs>,
    pub(crate) system: Arc<SystemConfig>,
    /// When the API started.
    pub(crate) started_at: Time,
    pub(crate) single_sign_on: Option<SingleSignOn>,
    /// Limits the number of open streams.
    pub(crate) streams: Arc<Semaphore>,
    /// Lists of runs that streams follow.
    pub(crate) run_lists: Arc<SharedRunLists>,
    /// Pages of logs that streams have read.
    pub(crate) event_pages: Arc<EventPages>,
}

impl ApiState {
    pub(crate) fn new(server: Server, config: &ApiConfig, closing: CancellationToken) -> Self {
        Self {
            closing,
            access: config.access,
            is_encrypted: false,
            hosts: Arc::new(AllowedHosts::new(config.is_loopback, &config.hosts)),
            tokens: Arc::default(),
            workers: Arc::default(),
            lease_key: Arc::new(SharedKey::in_setting(leases::KEY_SETTING)),
            web_session_key: Arc::new(SharedKey::in_setting(web_session::KEY_SETTING)),
            cluster_secret_hash: config.cluster_secret.as_deref().map(token_digest),
            metrics: Arc::new(crate::metrics::MetricsRenderer::new()),
            logs: Arc::clone(&config.logs),
            system: Arc::new(config.system.clone()),
            started_at: server.shared.store.now(),
            single_sign_on: config.single_sign_on.clone(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            run_lists: Arc::default(),
            event_pages: Arc::default(),
            server,
        }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.server.shared.store
    }

    /// Transport for calls of workers.
    pub(crate) fn transport(&self) -> InProcessTransport {
        self.transport_for(false)
    }

    /// Transport for a call that another server may have forwarded.
    pub(crate) fn transport_for(&self, is_passed_on: bool) -> InProcessTransport {
        let shared = self.server.shared.clone();
        if is_passed_on {
            InProcessTransport::for_forwarded_calls(shared)
        } else {
            InProcessTransport::new(shared)
        }
    }
}
