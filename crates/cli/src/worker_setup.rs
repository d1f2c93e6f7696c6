//! Configuration of a worker in this process, for a server in the same process or a remote one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use results::BodyStore;
use serde_json::{Map, Value};
use worker::{SystemClock, TaskLogSink};

use crate::app::App;
use crate::config::variables::{self, CONTAINER_VARIABLES, Variable};
use crate::control_plane::{DEFAULT_DATA_DIR, StoreLocation, store_location};
use crate::network_access::NetworkAccess;

/// Default worker pool.
pub(crate) const DEFAULT_POOL: &str = "default";
/// Directory in which stored results become files for programs of tasks.
const SCRATCH_DIR: &str = "scratch";
/// Heartbeat interval of a worker; several heartbeats fit into one lease.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(3);

/// Settings of one worker.
pub(crate) struct WorkerSetup<'a> {
    pub(crate) worker: WorkerId,
    pub(crate) pool: &'a str,
    /// Tool kinds it runs; `None` is all.
    pub(crate) kinds: Option<Vec<Name>>,
    pub(crate) slots: u32,
    /// Environment variables that playbooks may read.
    pub(crate) allow_env: &'a [String],
    pub(crate) bodies: Arc<dyn BodyStore>,
    pub(crate) logs: Arc<dyn TaskLogSink>,
    /// Network access of its tasks.
    pub(crate) network_access: NetworkAccess,
}

impl WorkerSetup<'_> {
    /// Builds the worker configuration.
    pub(crate) fn config(self, app: &App) -> worker::Config {
        let allowed = self.allow_env.iter().map(String::as_str);
        let env: Map<String, Value> = app
            .environment
            .select_variables(allowed)
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        worker::Config {
            worker: self.worker,
            pool: Name::from(self.pool),
            kinds: self.kinds,
            slots: self.slots,
            tools: integrations::build_registry(
                tools_config(app, self.slots, self.network_access),
                integrations_config(app),
            ),
            playbooks: app.playbooks.clone(),
            bodies: self.bodies,
            logs: self.logs,
            clock: Arc::new(SystemClock::default()),
            env,
            base_dir: PathBuf::from("."),
            scratch_dir: data_dir(app).join(SCRATCH_DIR),
            heartbeat: HEARTBEAT_INTERVAL,
            jumps_max: worker::JUMPS_MAX,
        }
    }
}

/// Returns the directory for the files of this process: the store directory, if there is one.
fn data_dir(app: &App) -> PathBuf {
    match store_location(&app.settings) {
        StoreLocation::Directory(dir) => dir,
        StoreLocation::Postgres(_) => Path::new(DEFAULT_DATA_DIR).to_owned(),
    }
}

/// Returns the start message that names the result store for large results.
pub(crate) fn describe_spill_location(bodies: &results::StoreRouter) -> String {
    format!("results over 64 KiB are stored in {}", bodies.spill_location())
}

fn tools_config(app: &App, slots: u32, network_access: NetworkAccess) -> tools::Config {
    let settings = &app.settings;
    let mut environment = tools::Config::default().environment;
    environment.extend(app.environment.task_variables());
    let dir = data_dir(app);
    let http = tools::HttpLimits::default();
    tools::Config {
        python: tools::PythonConfig {
            command: settings.python.clone(),
            pool_max: slots as usize,
            environments_dir: environments_dir(app),
            pip_environment: app.environment.pip_variables(),
            ..tools::PythonConfig::default()
        },
        http: tools::HttpLimits {
            per_host_max: settings.network.per_host_max.unwrap_or(http.per_host_max),
            ..http
        },
        network: settings
            .network
            .network_config(network_access.allow_private, network_access.protected),
        postgres: tools::postgres::PostgresConfig {
            connections_max: slots as usize,
            allow: settings.postgres_allow.clone(),
            ..tools::postgres::PostgresConfig::default()
        },
        environment,
        evaluation_program: current_program(),
        sandbox: settings.sandbox,
        external: settings.external.clone(),
        forbidden_files: vec![dir.join("noetl.db"), dir.join("master.key"), dir.join("master.key.old")],
        scratch_dir: dir,
    }
}

fn integrations_config(app: &App) -> integrations::Config {
    integrations::Config {
        container_environment: app
            .environment
            .select_variables(CONTAINER_VARIABLES.map(Variable::name)),
        duckdb: duckdb_config(app),
    }
}

/// Returns the path of the running program. `/proc/self/exe` is the same version even after an upgrade on disk.
fn current_program() -> Option<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Some(running);
    }
    std::env::current_exe().ok()
}

/// Returns the library paths and resource limits of `DuckDB`.
fn duckdb_config(app: &App) -> integrations::DuckdbConfig {
    let default = integrations::DuckdbConfig::default();
    let get = |variable| app.environment.get(variable);
    let memory = get(variables::DUCKDB_MEMORY).and_then(|text| model::duration::parse_size(&text.into()));
    let threads = get(variables::DUCKDB_THREADS).and_then(|text| text.parse().ok());
    integrations::DuckdbConfig {
        library: get(variables::DUCKDB_LIB).map(PathBuf::from),
        extensions: get(variables::DUCKDB_EXTENSIONS).map(PathBuf::from),
        memory_bytes_max: memory.unwrap_or(default.memory_bytes_max),
        threads_max: threads.unwrap_or(default.threads_max),
    }
}

/// Returns the directory of Python environments; all workers of a user share it.
pub(crate) fn environments_dir(app: &App) -> PathBuf {
    let cache = app.environment.cache_dir();
    cache.unwrap_or_else(|| data_dir(app).join("cache")).join("python")
}

/// Returns the tool kinds of a worker in a cluster: the built-in ones of this binary and the external tools configured
/// here. Steps with other kinds go to workers that have those.
pub(crate) fn all_kinds(app: &App) -> Vec<Name> {
    let built_in = language::playbook::kinds::KINDS
        .iter()
        .map(|kind| kind.name)
        .filter(|kind| integrations::is_built(kind));
    let added = app.settings.external.iter().map(|manifest| manifest.name.as_str());
    built_in.chain(added).map(Name::from).collect()
}
