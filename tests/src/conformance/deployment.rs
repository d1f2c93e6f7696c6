//! Where a case runs: in one process and in virtual time, or on Postgres and over HTTP in real time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use server::Server;
use server::api::{AccessMode, ApiConfig, BoundListener, SystemConfig};
use store::Store;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Client, HttpTransport, Transport};

use crate::stack::{PausingStore, VirtualClock};

/// A case that has not ended after this real time hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a case runs.
pub enum CaseDeployment {
    /// Server and worker in one process, on a store in memory and in virtual time.
    Memory,
    /// Server and worker in one process, on SQLite and in virtual time.
    Sqlite,
    /// A server on Postgres, and a worker that calls it over HTTP.
    Cluster {
        /// The database.
        store: Arc<store::PostgresStore>,
        /// The server's URL, and what stops it.
        listener: Option<(String, DropGuard)>,
    },
}

impl CaseDeployment {
    /// A server on this database, which may contain earlier cases.
    pub fn cluster(store: Arc<store::PostgresStore>) -> Self {
        Self::Cluster { store, listener: None }
    }

    pub(crate) fn has_virtual_time(&self) -> bool {
        !matches!(self, Self::Cluster { .. })
    }

    /// How long a case may take in real time; `None` in virtual time.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (!self.has_virtual_time()).then_some(CASE_TIMEOUT)
    }

    pub(crate) fn open_store(&self, dir: &Path, clock: VirtualClock) -> Result<Arc<dyn Store>, String> {
        match self {
            Self::Memory => Ok(Arc::new(store::MemoryStore::new(clock.for_store()))),
            Self::Sqlite => {
                let store = store::SqliteStore::open_with_clock(dir, clock.for_store());
                let store = store.map_err(|error| error.to_string())?;
                Ok(Arc::new(PausingStore::new(store)))
            }
            Self::Cluster { store, .. } => Ok(store.clone()),
        }
    }

    /// The secret by which servers on the same store authenticate each other.
    pub(crate) async fn cluster_secret(&self, store: &dyn Store) -> Result<Option<String>, String> {
        match self {
            Self::Memory | Self::Sqlite => Ok(None),
            Self::Cluster { .. } => {
                let secret = store.setting("cluster_secret").await;
                secret.map_err(|error| error.to_string())
            }
        }
    }

    /// Starts the HTTP listener, if the worker calls over HTTP.
    pub(crate) async fn start_listening(&mut self, server: &Server, dir: &Path) -> Result<(), String> {
        let Self::Cluster {
            listener: listening, ..
        } = self
        else {
            return Ok(());
        };
        let logs = results::FileLogs::open(dir.join("tasks"));
        let logs = logs.map_err(|error| error.to_string())?;
        let bound = BoundListener::bind("127.0.0.1:0").await;
        let bound = bound.map_err(|error| error.to_string())?;
        let url = format!("http://{}", bound.address());
        let stop = CancellationToken::new();
        let config = ApiConfig {
            access: AccessMode::Open,
            is_loopback: true,
            hosts: Vec::new(),
            logs: Arc::new(logs),
            cluster_secret: None,
            system: SystemConfig::default(),
            single_sign_on: None,
        };
        tokio::spawn(bound.serve(server.clone(), config, None, stop.clone()));
        *listening = Some((url, stop.drop_guard()));
        Ok(())
    }

    /// The worker's connection to the server.
    pub(crate) fn transport(&self, server: &Server) -> Result<Arc<dyn Transport>, String> {
        match self {
            Self::Memory | Self::Sqlite => Ok(server.transport()),
            Self::Cluster {
                listener: listening, ..
            } => {
                let (url, _) = listening.as_ref().ok_or("the server does not listen")?;
                let client = Client::new(std::slice::from_ref(url), None);
                let client = client.map_err(|error| error.to_string())?;
                Ok(Arc::new(HttpTransport::new(client)))
            }
        }
    }

    /// The worker's clock.
    pub(crate) fn worker_clock(&self, clock: VirtualClock) -> Arc<dyn worker::Clock> {
        match self {
            Self::Memory | Self::Sqlite => Arc::new(clock),
            Self::Cluster { .. } => Arc::new(worker::SystemClock::default()),
        }
    }
}
