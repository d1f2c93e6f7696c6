//! The server of one process: its configuration, start and stop.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use language::playbook::SharedPlaybooks;
use language::template::LazyValue;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::driver::{Assignments, CommitNotice};
use crate::error::Error;
use crate::keychain::{Keychain, KeychainConfig};
use crate::result_reader::ResultReader;
use crate::worker_descriptions::WorkerDescriptions;
use crate::{body_gc, driver, peers, playbooks, sweep, transport};

/// Configuration of a server.
pub struct Config {
    /// Event log, projections and queues.
    pub store: Arc<dyn store::Store>,
    /// Bodies too large for the log.
    pub bodies: Arc<dyn ::results::BodyStore>,
    /// Engine limits.
    pub limits: engine::ExecutionLimits,
    /// Parsed playbooks, shared with a worker in the same process.
    pub playbooks: SharedPlaybooks,
    /// Directory in which playbooks are found by relative file path; with `None`, files are rejected.
    pub playbook_dir: Option<PathBuf>,
    /// Bus on which events and notifications are published, if one is configured.
    pub bus: Option<Arc<dyn wire::Bus>>,
    /// Whether this server adopts executions of dead processes.
    pub may_adopt: bool,
    /// How long bodies are retained after the end of an execution; with `None`, this process does not collect garbage.
    pub retention: Option<Duration>,
    /// How credentials are encrypted and resolved.
    pub keychain: KeychainConfig,
    /// Shared secret with which servers on the same store authenticate to each other; `None` for a single process.
    pub cluster_secret: Option<String>,
}

/// The control plane of one process. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<ServerShared>,
    tasks: Arc<Vec<sweep::BackgroundTask>>,
}

/// State that all components of the server share.
pub(crate) struct ServerShared {
    pub(crate) store: Arc<dyn store::Store>,
    pub(crate) bodies: Arc<dyn ::results::BodyStore>,
    pub(crate) catalog: playbooks::PlaybookCatalog,
    pub(crate) keychain: Keychain,
    pub(crate) owner: store::OwnerId,
    pub(crate) driver: driver::DriverHandle,
    pub(crate) worker_descriptions: WorkerDescriptions,
    pub(crate) sweep_signals: sweep::SweepSignals,
    pub(crate) peer_clients: Option<peers::PeerClients>,
    pub(crate) may_adopt: bool,
    /// Variables that defaults of playbooks can read as `env`; unset on a server that several users share.
    pub(crate) env: OnceLock<LazyValue>,
    pub(crate) bus: Option<Arc<dyn wire::Bus>>,
    pub(crate) commit_notices: broadcast::Sender<Arc<CommitNotice>>,
    /// Executions that ended; sent after the last commit of the execution was published.
    pub(crate) ended_executions: broadcast::Sender<model::id::ExecutionId>,
    pub(crate) stop: CancellationToken,
}

impl ServerShared {
    /// Creates a reader of results.
    pub(crate) fn reader(&self) -> ResultReader {
        ResultReader::new(self.store.clone(), self.bodies.clone())
    }
}

/// How many commits a slow subscriber may lag behind; beyond that it misses commits and reads the log instead.
const COMMIT_NOTICES_MAX: usize = 128;

impl Server {
    /// Starts the driver and the background sweeps.
    pub fn start(config: Config) -> Result<Self, Error> {
        Self::start_parts(config, driver::Hooks::default())
    }

    /// Starts a server with a driver that a simulation changes.
    #[cfg(feature = "simulation")]
    pub fn start_with_tamper(config: Config, tamper: Arc<dyn crate::DriverTamper>) -> Result<Self, Error> {
        Self::start_parts(config, driver::Hooks::from_tamper(tamper))
    }

    fn start_parts(config: Config, hooks: driver::Hooks) -> Result<Self, Error> {
        let owner = config.store.owner()?;
        let (published, _) = broadcast::channel(COMMIT_NOTICES_MAX);
        let (drive, requests) = driver::driver_channel();
        let shared = Arc::new(ServerShared {
            catalog: playbooks::PlaybookCatalog::new(
                config.store.clone(),
                config.playbooks,
                config.limits,
                config.playbook_dir,
            ),
            keychain: Keychain::new(config.keychain, config.store.clone()),
            store: config.store,
            bodies: config.bodies,
            owner,
            driver: drive,
            worker_descriptions: WorkerDescriptions::default(),
            sweep_signals: sweep::SweepSignals::default(),
            peer_clients: config.cluster_secret.as_deref().map(peers::PeerClients::new),
            may_adopt: config.may_adopt,
            env: OnceLock::new(),
            bus: config.bus,
            commit_notices: published,
            ended_executions: broadcast::Sender::new(COMMIT_NOTICES_MAX),
            stop: CancellationToken::new(),
        });
        let collecting = config.retention.map(|retention| {
            let sweep = body_gc::run_gc(shared.clone(), retention);
            sweep::BackgroundTask::spawn("garbage collector", &shared, sweep)
        });
        let driving = driver::run(shared.clone(), requests, hooks);
        let mut parts = vec![sweep::BackgroundTask::spawn("execution driver", &shared, driving)];
        parts.extend(sweep::spawn_tasks(&shared));
        parts.extend(collecting);
        Ok(Self {
            shared,
            tasks: Arc::new(parts),
        })
    }

    /// Lets defaults of playbooks read these variables as `env`. Every playbook that this server runs can read them.
    pub fn allow_env(&self, env: Map<String, Value>) {
        // The first call wins.
        let _ = self.shared.env.set(LazyValue::new(Value::Object(env)));
    }

    /// Name of a background task that has ended while the server is running.
    pub(crate) fn dead_task(&self) -> Option<&'static str> {
        self.tasks.iter().find_map(sweep::BackgroundTask::dead_name)
    }

    /// Transport for workers in this process.
    pub fn transport(&self) -> Arc<dyn wire::Transport> {
        Arc::new(transport::InProcessTransport::new(self.shared.clone()))
    }

    /// Subscribes to every commit of this process from now on; a commit is sent once it is durable.
    pub fn subscribe_commits(&self) -> broadcast::Receiver<Arc<CommitNotice>> {
        self.shared.commit_notices.subscribe()
    }

    /// Commands that are assigned to workers; tests use it to check that no assignment leaks.
    pub async fn assignments(&self) -> Assignments {
        self.shared.driver.assignments().await
    }

    /// Stops the driver after it has committed everything it accepted.
    pub async fn stop(self) {
        self.shared.driver.drain().await;
        self.shared.stop.cancel();
    }
}
