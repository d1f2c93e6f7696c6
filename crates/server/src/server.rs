//! The server of one process: its configuration, start and stop.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use model::template::Data;
use serde_json::{Map, Value};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::drive::{Assignments, Published};
use crate::error::Error;
use crate::keychain::{Keychain, KeychainConfig};
use crate::reading::Reader;
use crate::{collect, drive, peers, playbooks, sweep, transport};

/// Configuration of a server.
pub struct Config {
    /// Event log, projections and queues.
    pub store: Arc<dyn store::Store>,
    /// Bodies too large for the log.
    pub bodies: Arc<dyn ::results::Bodies>,
    /// Engine limits.
    pub limits: engine::Limits,
    /// Directory in which playbooks are found by relative file path; with `None`, files are rejected.
    pub files: Option<PathBuf>,
    /// Bus on which events and notifications are published, if one is configured.
    pub bus: Option<Arc<dyn wire::Bus>>,
    /// Whether this server adopts executions of dead processes.
    pub takes_over: bool,
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
    pub(crate) shared: Arc<Shared>,
    parts: Arc<Vec<sweep::Part>>,
}

/// State that all components of the server share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn store::Store>,
    pub(crate) bodies: Arc<dyn ::results::Bodies>,
    pub(crate) playbooks: playbooks::Playbooks,
    pub(crate) keychain: Keychain,
    pub(crate) owner: store::OwnerId,
    pub(crate) drive: drive::Handle,
    pub(crate) sweeps: sweep::Hints,
    pub(crate) peers: Option<peers::Peers>,
    pub(crate) takes_over: bool,
    /// Variables that defaults of playbooks can read as `env`; unset on a server that several users share.
    pub(crate) env: OnceLock<Data>,
    pub(crate) bus: Option<Arc<dyn wire::Bus>>,
    pub(crate) published: broadcast::Sender<Arc<Published>>,
    /// Executions that ended; sent after the last commit of the execution was published.
    pub(crate) ended: broadcast::Sender<model::id::ExecutionId>,
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// Creates a reader of results.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.store.clone(), self.bodies.clone())
    }
}

/// How many commits a slow subscriber may lag behind; beyond that it misses commits and reads the log instead.
const PUBLISHED_BACKLOG: usize = 128;

impl Server {
    /// Starts the driver and the background sweeps.
    pub fn start(config: Config) -> Result<Self, Error> {
        let owner = config.store.owner()?;
        let (published, _) = broadcast::channel(PUBLISHED_BACKLOG);
        let (drive, orders) = drive::channel();
        let shared = Arc::new(Shared {
            playbooks: playbooks::Playbooks::new(config.store.clone(), config.limits, config.files),
            keychain: Keychain::new(config.keychain, config.store.clone()),
            store: config.store,
            bodies: config.bodies,
            owner,
            drive,
            sweeps: sweep::Hints::default(),
            peers: config.cluster_secret.as_deref().map(peers::Peers::new),
            takes_over: config.takes_over,
            env: OnceLock::new(),
            bus: config.bus,
            published,
            ended: broadcast::Sender::new(PUBLISHED_BACKLOG),
            stop: CancellationToken::new(),
        });
        let collecting = config.retention.map(|retention| {
            let sweep = collect::sweep(shared.clone(), retention);
            sweep::Part::spawn("garbage collector", &shared, sweep)
        });
        let driving = drive::run(shared.clone(), orders);
        let mut parts = vec![sweep::Part::spawn("execution driver", &shared, driving)];
        parts.extend(sweep::spawn(&shared));
        parts.extend(collecting);
        Ok(Self {
            shared,
            parts: Arc::new(parts),
        })
    }

    /// Lets defaults of playbooks read these variables as `env`; for a process that only runs executions of its own
    /// user.
    pub fn allow_env(&self, env: Map<String, Value>) {
        // The first call wins.
        let _ = self.shared.env.set(Data::new(Value::Object(env)));
    }

    /// Name of a background task that has ended while the server is running.
    pub(crate) fn dead_part(&self) -> Option<&'static str> {
        self.parts.iter().find_map(sweep::Part::dead)
    }

    /// Transport for workers in this process.
    pub fn transport(&self) -> Arc<dyn wire::Transport> {
        Arc::new(transport::InProcess::new(self.shared.clone()))
    }

    /// Subscribes to every commit of this process from now on; a commit is sent once it is durable.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Published>> {
        self.shared.published.subscribe()
    }

    /// Commands that are assigned to workers; tests use it to check that no assignment leaks.
    pub async fn assignments(&self) -> Assignments {
        self.shared.drive.assignments().await
    }

    /// Stops the driver after it has committed everything it accepted.
    pub async fn stop(self) {
        self.shared.drive.drain().await;
        self.shared.stop.cancel();
    }
}
