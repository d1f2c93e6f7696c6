//! Where a case runs: embedded in virtual time, or on Postgres and over HTTP in real time.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use server::Server;
use server::api::{AccessMode, ApiConfig, BoundListener};
use store::Store;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::{Client, HttpTransport, Transport};

use tests::stack::PausingStore;
use tests::stack::VirtualClock;

/// A case that has not ended by then hangs, in real time.
const CASE_TIMEOUT: Duration = Duration::from_secs(20);

/// Where a case runs.
pub(crate) enum CaseDeployment {
    /// Everything in one process, time virtual.
    Embedded,
    /// A listening server on Postgres.
    Cluster {
        store: Arc<store::PostgresStore>,
        listener: Option<(String, DropGuard)>,
    },
}

impl CaseDeployment {
    /// A server on this database, which may hold earlier cases.
    pub(crate) fn cluster(store: Arc<store::PostgresStore>) -> Self {
        Self::Cluster {
            store,
            listener: None,
        }
    }

    pub(crate) fn has_virtual_time(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// How long a case may take in real time; none where time is virtual.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        (!self.has_virtual_time()).then_some(CASE_TIMEOUT)
    }

    pub(crate) fn open_store(
        &self,
        dir: &Path,
        clock: VirtualClock,
    ) -> Result<Arc<dyn Store>, String> {
        match self {
            Self::Embedded => {
                let store = store::SqliteStore::open_with_clock(dir, clock.for_store());
                let store = store.map_err(|error| error.to_string())?;
                Ok(Arc::new(PausingStore::new(store)))
            }
            Self::Cluster { store, .. } => Ok(store.clone()),
        }
    }

    /// The secret that servers on the same store know each other by.
    pub(crate) async fn cluster_secret(&self, store: &dyn Store) -> Result<Option<String>, String> {
        match self {
            Self::Embedded => Ok(None),
            Self::Cluster { .. } => {
                let secret = store.setting("cluster_secret").await;
                secret.map_err(|error| error.to_string())
            }
        }
    }

    /// Opens the server's door, if workers come from outside.
    pub(crate) async fn start_listening(
        &mut self,
        server: &Server,
        dir: &Path,
    ) -> Result<(), String> {
        let Self::Cluster {
            listener: listening,
            ..
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
        };
        tokio::spawn(bound.serve(server.clone(), config, None, stop.clone()));
        *listening = Some((url, stop.drop_guard()));
        Ok(())
    }

    /// How a worker reaches the server.
    pub(crate) fn transport(&self, server: &Server) -> Result<Arc<dyn Transport>, String> {
        match self {
            Self::Embedded => Ok(server.transport()),
            Self::Cluster {
                listener: listening,
                ..
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
            Self::Embedded => Arc::new(clock),
            Self::Cluster { .. } => Arc::new(worker::SystemClock::default()),
        }
    }
}
