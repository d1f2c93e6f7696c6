//! A worker: what it is made of, and what its parts share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use model::id::{CommandId, Name, WorkerId};
use model::template::Data;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tools::Registry;
use wire::{Held, Told, Transport};

use crate::claim;
use crate::clock::Clock;
use crate::elements::Elements;
use crate::lease::{Lease, Order};
use crate::logs::Logs;
use crate::manifests::WithManifests;
use crate::playbooks::Playbooks;
use crate::secrets::Secrets;

/// How a worker is set up.
#[derive(Clone)]
pub struct Config {
    /// Its session.
    pub worker: WorkerId,
    /// The pool it serves.
    pub pool: Name,
    /// The tool kinds it takes work for; none means every kind.
    pub kinds: Option<Vec<Name>>,
    /// How many commands it runs at once.
    pub slots: u32,
    /// The kinds of tools it can call.
    pub tools: Registry,
    /// Where bodies too large for the log are kept.
    pub bodies: Arc<dyn results::Bodies>,
    /// Where the lines that tasks print go.
    pub logs: Arc<dyn Logs>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// What templates see as `env`; where it is empty they see none.
    pub env: Map<String, Value>,
    /// What relative paths are relative to where the playbook's name is not a file.
    pub base_dir: PathBuf,
    /// Where bodies are put that programs read as files; what is in it goes with the command.
    pub scratch_dir: PathBuf,
    /// How often it tells the server that it is alive.
    pub heartbeat: Duration,
    /// How often a pipeline may jump; usually `pipeline::JUMPS_MAX`.
    pub jumps_max: u32,
}

/// Claims commands, runs them and reports what happened.
pub struct Worker {
    shared: Arc<Shared>,
}

impl Worker {
    /// A worker that reaches its server through `transport`.
    pub fn new(config: Config, transport: Arc<dyn Transport>) -> Self {
        Self {
            shared: Arc::new(Shared::new(config, transport)),
        }
    }

    /// Works until `stop` is cancelled; then lets running tasks end, for a while, and gives the rest back.
    pub async fn run(self, stop: CancellationToken) -> WorkEnd {
        end_orphans();
        claim::work(self.shared, stop).await
    }
}

/// Why a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkEnd {
    /// It was stopped.
    Stopped,
    /// Another process works under its name.
    Replaced,
}

/// Ends what workers that were killed have left running on this machine. Whoever starts later in this process finds no
/// more of it.
fn end_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let look = || {
            let ended = tools::end_orphans();
            if ended > 0 {
                tracing::warn!(ended, "ended processes of workers that are gone");
            }
        };
        // A machine that has no thread for it has other worries; the next worker looks again.
        let _ = std::thread::Builder::new().spawn(look);
    });
}

/// What the parts of a worker share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) playbooks: Playbooks,
    pub(crate) elements: Elements,
    pub(crate) secrets: Secrets,
    pub(crate) env: Option<Data>,
    leases: Mutex<HashMap<CommandId, Arc<Lease>>>,
    is_draining: AtomicBool,
}

impl Shared {
    pub(crate) fn new(config: Config, transport: Arc<dyn Transport>) -> Self {
        let config = Config {
            bodies: Arc::new(WithManifests {
                bodies: config.bodies,
                transport: transport.clone(),
            }),
            ..config
        };
        Self {
            env: (!config.env.is_empty()).then(|| Data::new(Value::Object(config.env.clone()))),
            config,
            transport,
            playbooks: Playbooks::default(),
            elements: Elements::default(),
            secrets: Secrets::default(),
            leases: Mutex::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Whether the worker is about to end and takes nothing more.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Takes nothing more; what runs may end.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.tell_all(Order::Yield);
    }

    /// Makes a lease reachable for what the server tells.
    pub(crate) fn hold(&self, lease: &Arc<Lease>) {
        let before = self.leases().insert(lease.id, lease.clone());
        // The command came back here under a later claim: whatever is done under the earlier one is refused.
        if let Some(before) = before {
            before.tell(Order::Gone);
        }
        if self.is_draining() {
            lease.tell(Order::Yield);
        }
    }

    /// Forgets a lease, and not a later one of the same command.
    pub(crate) fn let_go(&self, lease: &Arc<Lease>) {
        let mut leases = self.leases();
        let is_current = leases.get(&lease.id);
        if is_current.is_some_and(|current| Arc::ptr_eq(current, lease)) {
            leases.remove(&lease.id);
        }
    }

    /// Passes on what the server told. Commands that ended meanwhile are not there any more.
    pub(crate) fn hear(&self, told: &[Told]) {
        let leases = self.leases();
        for told in told {
            if let Some(lease) = leases.get(&told.command) {
                lease.hear(told.verdict);
            }
        }
    }

    pub(crate) fn tell_all(&self, order: Order) {
        for lease in self.leases().values() {
            lease.tell(order);
        }
    }

    /// The commands in hand.
    pub(crate) fn holds(&self) -> Vec<Held> {
        self.leases().values().map(|lease| lease.held()).collect()
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<CommandId, Arc<Lease>>> {
        self.leases.lock().expect("no holder of the leases panics")
    }
}
