//! A server for tests: its default settings, and its API on a free port.

use std::sync::Arc;

use results::{BodyStore, FileLogs};
use server::Server;
use server::api::{AccessMode, ApiConfig, BoundListener, SystemConfig};
use store::Store;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Settings of a server on these stores, without a bus, a cluster or garbage collection.
pub fn server_config(store: Arc<dyn Store>, bodies: Arc<dyn BodyStore>) -> server::Config {
    server::Config {
        store,
        bodies,
        limits: engine::ExecutionLimits::default(),
        playbooks: language::playbook::SharedPlaybooks::default(),
        playbook_dir: None,
        bus: None,
        may_adopt: false,
        keychain: server::KeychainConfig::default(),
        retention: None,
        cluster_secret: None,
    }
}

/// The API of a server without access control; it stops with this value.
pub struct LocalApi {
    /// URL of the API.
    pub url: String,
    _stop: DropGuard,
}

impl LocalApi {
    /// Serves the API on a free port.
    pub async fn start(server: Server, logs: FileLogs) -> Self {
        let listener = BoundListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.address());
        let config = ApiConfig {
            access: AccessMode::Open,
            is_loopback: true,
            hosts: Vec::new(),
            cluster_secret: None,
            logs: Arc::new(logs),
            system: SystemConfig::default(),
            single_sign_on: None,
        };
        let stop = CancellationToken::new();
        tokio::spawn(listener.serve(server, config, None, stop.clone()));
        Self {
            url,
            _stop: stop.drop_guard(),
        }
    }
}
