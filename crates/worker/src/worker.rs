//! The worker: its configuration and the state that its parts share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use language::playbook::SharedPlaybooks;
use language::template::LazyValue;
use model::command::ClaimId;
use model::id::{CommandId, Name, WorkerId};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tools::Registry;
use wire::{CommandNotice, Transport};

use crate::claim_loop;
use crate::clock::Clock;
use crate::elements::ElementCache;
use crate::lease::{CommandLease, LeaseState};
use crate::logs::TaskLogSink;
use crate::manifests::ManifestBodyStore;
use crate::playbooks::PlaybookCache;
use crate::secrets::SecretCache;

/// Configuration of a worker.
#[derive(Clone)]
pub struct Config {
    /// Session ID of the worker.
    pub worker: WorkerId,
    /// Pool that the worker serves.
    pub pool: Name,
    /// Tool kinds that the worker accepts work for; `None` accepts every kind.
    pub kinds: Option<Vec<Name>>,
    /// Maximum number of commands to run at once.
    pub slots: u32,
    /// Tools that the worker can call.
    pub tools: Registry,
    /// Parsed playbooks, shared with a server in the same process.
    pub playbooks: SharedPlaybooks,
    /// Store of bodies that are too large for the event log.
    pub bodies: Arc<dyn results::BodyStore>,
    /// Receives the lines that tasks print.
    pub logs: Arc<dyn TaskLogSink>,
    /// Clock of the worker.
    pub clock: Arc<dyn Clock>,
    /// Variables that templates see as `env`; if empty, templates have no `env`.
    pub env: Map<String, Value>,
    /// Base of relative paths if the name of the playbook is not a file.
    pub base_dir: PathBuf,
    /// Directory for bodies that programs read as files; the files of a command are deleted when it ends.
    pub scratch_dir: PathBuf,
    /// Interval between heartbeats.
    pub heartbeat: Duration,
    /// Maximum number of jumps of a pipeline; usually `pipeline::JUMPS_MAX`.
    pub jumps_max: u32,
}

/// Claims commands, runs them and reports their events.
pub struct Worker {
    shared: Arc<WorkerShared>,
}

impl Worker {
    /// Creates a worker that connects to its server through `transport`.
    pub fn new(config: Config, transport: Arc<dyn Transport>) -> Self {
        Self {
            shared: Arc::new(WorkerShared::new(config, transport)),
        }
    }

    /// Runs until `stop` is cancelled. Then running tasks get time to finish, and unfinished commands are released.
    pub async fn run(self, stop: CancellationToken) -> WorkEnd {
        end_orphans();
        claim_loop::run_claim_loop(self.shared, stop).await
    }
}

/// Why a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkEnd {
    /// The worker was stopped.
    Stopped,
    /// Another process replaced the session of this worker.
    Replaced,
}

/// Kills processes that crashed workers left running on this machine. Runs once per process.
fn end_orphans() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let scan = || {
            let ended = tools::end_orphans();
            if ended > 0 {
                tracing::warn!(ended, "killed orphaned task processes of earlier workers");
            }
        };
        // A failed spawn is not fatal: the next worker repeats the scan.
        let _ = std::thread::Builder::new().spawn(scan);
    });
}

/// State that the parts of a worker share.
pub(crate) struct WorkerShared {
    pub(crate) config: Config,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) playbook_cache: PlaybookCache,
    pub(crate) element_cache: ElementCache,
    pub(crate) secret_cache: SecretCache,
    pub(crate) env: Option<LazyValue>,
    leases: Mutex<HashMap<CommandId, Arc<CommandLease>>>,
    is_draining: AtomicBool,
}

impl WorkerShared {
    pub(crate) fn new(config: Config, transport: Arc<dyn Transport>) -> Self {
        let config = Config {
            bodies: Arc::new(ManifestBodyStore {
                bodies: config.bodies,
                transport: transport.clone(),
            }),
            ..config
        };
        Self {
            env: (!config.env.is_empty()).then(|| LazyValue::new(Value::Object(config.env.clone()))),
            config,
            transport,
            playbook_cache: PlaybookCache::default(),
            element_cache: ElementCache::default(),
            secret_cache: SecretCache::default(),
            leases: Mutex::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// Whether the worker is shutting down and claims no more commands.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Stops claiming commands; running tasks may finish.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.restrict_all(LeaseState::Yielding);
    }

    /// Registers a lease, so that notices of the server reach it.
    pub(crate) fn register_lease(&self, lease: &Arc<CommandLease>) {
        let replaced = self.leases().insert(lease.id, lease.clone());
        // This worker claimed the command again; the server rejects reports of the earlier claim.
        if let Some(replaced) = replaced {
            replaced.restrict(LeaseState::Lost);
        }
        if self.is_draining() {
            lease.restrict(LeaseState::Yielding);
        }
    }

    /// Unregisters a lease, unless a later claim of the same command has replaced it.
    pub(crate) fn unregister_lease(&self, lease: &Arc<CommandLease>) {
        let mut leases = self.leases();
        let current = leases.get(&lease.id);
        if current.is_some_and(|current| Arc::ptr_eq(current, lease)) {
            leases.remove(&lease.id);
        }
    }

    /// Applies notices of the server. Notices for commands that have ended are ignored.
    pub(crate) fn apply_notices(&self, notices: &[CommandNotice]) {
        let leases = self.leases();
        for notice in notices {
            if let Some(lease) = leases.get(&notice.command) {
                lease.apply_verdict(notice.verdict);
            }
        }
    }

    pub(crate) fn restrict_all(&self, state: LeaseState) {
        for lease in self.leases().values() {
            lease.restrict(state);
        }
    }

    /// Claims that this worker holds.
    pub(crate) fn claim_ids(&self) -> Vec<ClaimId> {
        self.leases().values().map(|lease| lease.claim_id()).collect()
    }

    fn leases(&self) -> std::sync::MutexGuard<'_, HashMap<CommandId, Arc<CommandLease>>> {
        self.leases.lock().expect("the lock is not poisoned")
    }
}
