//! The server of one process: what it is made of, how it starts and how it stops.

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

/// What a server is made of.
pub struct Config {
    /// The log and everything beside it.
    pub store: Arc<dyn store::Store>,
    /// Bodies too large for the log.
    pub bodies: Arc<dyn ::results::Bodies>,
    /// The bounds that hold.
    pub limits: engine::Limits,
    /// Where playbooks named by a relative file path are found; none refuses files.
    pub files: Option<PathBuf>,
    /// Where events are published and hints passed on; none where nobody listens.
    pub bus: Option<Arc<dyn wire::Bus>>,
    /// Whether it takes over what dead processes drove.
    pub takes_over: bool,
    /// How long after a run's end its bodies are kept; none where this process does not stay to collect them.
    pub retention: Option<Duration>,
    /// How credentials are sealed and resolved.
    pub keychain: KeychainConfig,
    /// The secret that servers on the same store know each other by; none where this process is alone.
    pub cluster_secret: Option<String>,
}

/// The control plane of one process. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    parts: Arc<Vec<sweep::Part>>,
}

/// What every part of the server holds.
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
    /// Variables that defaults of playbooks may read as `env`; none on a server that others use.
    pub(crate) env: OnceLock<Data>,
    pub(crate) bus: Option<Arc<dyn wire::Bus>>,
    pub(crate) published: broadcast::Sender<Arc<Published>>,
    /// Executions that ended, after the commit that ended them was published.
    pub(crate) ended: broadcast::Sender<model::id::ExecutionId>,
    pub(crate) stop: CancellationToken,
}

impl Shared {
    /// What reads results.
    pub(crate) fn reader(&self) -> Reader {
        Reader::new(self.store.clone(), self.bodies.clone())
    }
}

/// How many commits a slow watcher may lag behind before it misses some and reads the log instead.
const PUBLISHED_BACKLOG: usize = 128;

impl Server {
    /// Starts the drive and its sweeps.
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
            sweep::Part::spawn("the collector", &shared, sweep)
        });
        let driving = drive::run(shared.clone(), orders);
        let mut parts = vec![sweep::Part::spawn("the drive", &shared, driving)];
        parts.extend(sweep::spawn(&shared));
        parts.extend(collecting);
        Ok(Self {
            shared,
            parts: Arc::new(parts),
        })
    }

    /// Lets defaults of playbooks read these variables as `env`; for a process that drives its user's own runs.
    pub fn allow_env(&self, env: Map<String, Value>) {
        // Whatever was allowed first stays.
        let _ = self.shared.env.set(Data::new(Value::Object(env)));
    }

    /// A part that has died although the server goes on.
    pub(crate) fn dead_part(&self) -> Option<&'static str> {
        self.parts.iter().find_map(sweep::Part::dead)
    }

    /// How workers in this process reach it.
    pub fn transport(&self) -> Arc<dyn wire::Transport> {
        Arc::new(transport::InProcess::new(self.shared.clone()))
    }

    /// Every commit of this process from now on, as it becomes durable.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Published>> {
        self.shared.published.subscribe()
    }

    /// The commands that are assigned to workers, so that it can be seen that none stays so for nothing.
    pub async fn assignments(&self) -> Assignments {
        self.shared.drive.assignments().await
    }

    /// Stops the drive once what it has taken in is committed.
    pub async fn stop(self) {
        self.shared.drive.drain().await;
        self.shared.stop.cancel();
    }
}
