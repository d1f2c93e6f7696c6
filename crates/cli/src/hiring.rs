//! What a worker of this process is made of, whether it works beside a server or for one elsewhere.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use results::Bodies;
use serde_json::{Map, Value};
use worker::{Logs, SystemClock};

use crate::app::App;
use crate::local::{Place, WORKPLACE, place};
use crate::reach::Reach;

/// The pool that playbooks use unless they say otherwise.
pub(crate) const POOL: &str = "default";
/// Where bodies become files that programs read.
const SCRATCH: &str = "scratch";
/// How often a worker says that it is alive: several times before its lease is over.
const HEARTBEAT: Duration = Duration::from_secs(3);

/// Where the clients of docker, podman and Kubernetes find what they are clients of.
const RUNTIMES: [&str; 9] = [
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "CONTAINER_HOST",
    "KUBECONFIG",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
];

/// Who works, and on what.
pub(crate) struct Hired<'a> {
    pub(crate) worker: WorkerId,
    pub(crate) pool: &'a str,
    /// The tool kinds it takes; none is all.
    pub(crate) kinds: Option<Vec<Name>>,
    pub(crate) slots: u32,
    /// The variables of this process's environment that playbooks may read.
    pub(crate) allow_env: &'a [String],
    pub(crate) bodies: Arc<dyn Bodies>,
    pub(crate) logs: Arc<dyn Logs>,
    /// Where its tasks may go.
    pub(crate) reach: Reach,
}

impl Hired<'_> {
    /// The worker's configuration.
    pub(crate) fn config(self, app: &App) -> worker::Config {
        let allowed = self.allow_env.iter().map(String::as_str);
        let env: Map<String, Value> = app
            .environment
            .allowed(allowed)
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        worker::Config {
            worker: self.worker,
            pool: Name::from(self.pool),
            kinds: self.kinds,
            slots: self.slots,
            tools: tools::Registry::builtin(tools(app, self.slots, self.reach)),
            bodies: self.bodies,
            logs: self.logs,
            clock: Arc::new(SystemClock::default()),
            env,
            base_dir: PathBuf::from("."),
            scratch_dir: own_dir(app).join(SCRATCH),
            heartbeat: HEARTBEAT,
            jumps_max: worker::JUMPS_MAX,
        }
    }
}

/// Where this process keeps what it must: in the store's directory, if it has one.
fn own_dir(app: &App) -> PathBuf {
    match place(&app.settings) {
        Place::Directory(dir) => dir,
        Place::Postgres(_) => Path::new(WORKPLACE).to_owned(),
    }
}

/// Where results go that are too large for the log, said once at the start.
pub(crate) fn spills_to(bodies: &results::Stores) -> String {
    format!("over 64 KiB are kept in {}", bodies.spills_to())
}

fn tools(app: &App, slots: u32, reach: Reach) -> tools::Config {
    let settings = &app.settings;
    let mut environment = tools::Config::default().environment;
    environment.extend(app.environment.inherited());
    let dir = own_dir(app);
    let http = tools::HttpLimits::default();
    tools::Config {
        python: tools::PythonConfig {
            command: settings.python.clone(),
            pool_max: slots as usize,
            environments_dir: environments_dir(app),
            pip_environment: app.environment.for_pip(),
            ..tools::PythonConfig::default()
        },
        http: tools::HttpLimits {
            per_host_max: settings.network.per_host_max.unwrap_or(http.per_host_max),
            ..http
        },
        network: settings.network.reaching(reach.allow_private, reach.own),
        postgres: tools::PostgresConfig {
            connections_max: slots as usize,
            allow: settings.postgres_allow.clone(),
            ..tools::PostgresConfig::default()
        },
        environment,
        container_environment: app.environment.allowed(RUNTIMES),
        duckdb: duckdb(app),
        evaluation_program: own_program(),
        sandbox: settings.sandbox,
        external: settings.external.clone(),
        forbidden_files: vec![
            dir.join("noetl.db"),
            dir.join("master.key"),
            dir.join("master.key.old"),
        ],
        scratch_dir: dir,
    }
}

/// This program. A newer one may lie in its place by now, and what runs must be the same.
fn own_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Some(running);
    }
    std::env::current_exe().ok()
}

/// Where `DuckDB` is, and what it may take.
fn duckdb(app: &App) -> tools::DuckdbConfig {
    let default = tools::DuckdbConfig::default();
    let get = |name: &str| app.environment.get(name);
    let memory =
        get("NOETL_DUCKDB_MEMORY").and_then(|text| model::duration::parse_size(&text.into()));
    let threads = get("NOETL_DUCKDB_THREADS").and_then(|text| text.parse().ok());
    tools::DuckdbConfig {
        library: get("NOETL_DUCKDB_LIB").map(PathBuf::from),
        extensions: get("NOETL_DUCKDB_EXTENSIONS").map(PathBuf::from),
        memory_bytes_max: memory.unwrap_or(default.memory_bytes_max),
        threads_max: threads.unwrap_or(default.threads_max),
    }
}

/// Where the libraries of python tasks are kept; one person's workers share them.
pub(crate) fn environments_dir(app: &App) -> PathBuf {
    let cache = app.environment.cache_dir();
    cache
        .unwrap_or_else(|| own_dir(app).join("cache"))
        .join("python")
}

/// The kinds of a worker that shares its work with others: the language's, and those added here. What others add, others do.
pub(crate) fn every_kind(app: &App) -> Vec<Name> {
    let built_in = model::playbook::kinds::KINDS.iter().map(|kind| kind.name);
    let added = app
        .settings
        .external
        .iter()
        .map(|manifest| manifest.name.as_str());
    built_in.chain(added).map(Name::from).collect()
}
