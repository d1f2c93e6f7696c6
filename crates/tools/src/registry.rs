//! The kinds of tools a worker can call, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::Name;

use crate::artifact::Artifact;
use crate::call::Tool;
use crate::container::Container;
use crate::duckdb::{Databases, Duckdb, Guard, Libraries};
use crate::evaluation::EvaluationProcesses;
use crate::external::{External, Manifest};
use crate::http::{Clients, Http};
use crate::isolation::SandboxLevel;
use crate::mcp::Mcp;
use crate::nats::{Connections, Nats};
use crate::network::Network;
use crate::noop::Noop;
use crate::objects::{Objects, Reach};
use crate::postgres::{Pools, Postgres, PostgresConfig};
use crate::python::Python;
use crate::rhai::Rhai;
use crate::script::{Scripted, Scripts};
use crate::shell::Shell;
use crate::sqlite::Sqlite;
use crate::transfer::Transfer;
use crate::transform::Transform;

/// How the built-in tools are set up.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interpreters of the `python` tool.
    pub python: PythonConfig,
    /// Bounds of the `http` tool.
    pub http: HttpLimits,
    /// What of the network tasks may reach.
    pub network: Network,
    /// Connections of the `postgres` tool.
    pub postgres: PostgresConfig,
    /// What programs inherit: `PATH`, `HOME`, `LANG`, `VIRTUAL_ENV`, as far as they are set.
    pub environment: BTreeMap<String, String>,
    /// What the clients of container runtimes find besides: `DOCKER_HOST`, `KUBECONFIG` and their like.
    pub container_environment: BTreeMap<String, String>,
    /// How far programs are shut in at least, whatever a task asks for.
    pub sandbox: SandboxLevel,
    /// The kinds that this deployment adds.
    pub external: Vec<Manifest>,
    /// Where responses wait while they are received; best on the disk that also holds bodies.
    pub scratch_dir: PathBuf,
    /// Files that tools refuse to open: the engine's own store.
    pub forbidden_files: Vec<PathBuf>,
    /// The library of the `duckdb` tool.
    pub duckdb: DuckdbConfig,
    /// The program in whose processes jq programs and rhai scripts run, started with
    /// [`EVALUATION_PROCESS_ARGUMENT`](crate::EVALUATION_PROCESS_ARGUMENT); without one, they run in this process and
    /// their memory is not limited.
    pub evaluation_program: Option<PathBuf>,
}

/// The library of the `duckdb` tool, and what it may take.
#[derive(Debug, Clone)]
pub struct DuckdbConfig {
    /// Where it is; looked for under its usual names if nothing is said.
    pub library: Option<PathBuf>,
    /// Where its extensions are, if not where it looks by itself.
    pub extensions: Option<PathBuf>,
    /// How much memory one database may take before it uses the disk.
    pub memory_bytes_max: u64,
    /// How many threads one database may use.
    pub threads_max: u32,
}

/// Interpreters of the `python` tool.
#[derive(Debug, Clone)]
pub struct PythonConfig {
    /// The interpreter: a path, or a name looked up in `PATH`.
    pub command: PathBuf,
    /// How many calls run at the same time, each in an interpreter of its own.
    pub pool_max: usize,
    /// An interpreter is replaced after this many calls.
    pub calls_max: u64,
    /// Where environments with the libraries of `libs` are kept.
    pub environments_dir: PathBuf,
    /// What pip sees of the environment besides what programs inherit: which index, which proxy.
    pub pip_environment: BTreeMap<String, String>,
}

/// Bounds of the `http` tool.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// The largest response that is held in memory, decompressed.
    pub held_bytes_max: usize,
    /// The largest response that passes into the store of bodies, decompressed.
    pub streamed_bytes_max: u64,
    /// The longest chain of redirects.
    pub redirects_max: usize,
    /// The largest response header.
    pub header_bytes_max: u32,
    /// How many requests one host is sent at once; the others wait in order.
    pub per_host_max: usize,
    /// How long connecting may take where the task does not say.
    pub connect: Duration,
    /// How long a whole call may take where the task does not say.
    pub total: Duration,
}

/// The kinds of tools a worker can call.
#[derive(Clone)]
pub struct Registry {
    tools: BTreeMap<Name, Arc<dyn Tool>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            python: PythonConfig::default(),
            http: HttpLimits::default(),
            network: Network::default(),
            postgres: PostgresConfig::default(),
            environment: BTreeMap::from([(
                "PATH".to_owned(),
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            )]),
            container_environment: BTreeMap::new(),
            sandbox: SandboxLevel::None,
            external: Vec::new(),
            scratch_dir: std::env::temp_dir(),
            forbidden_files: Vec::new(),
            duckdb: DuckdbConfig::default(),
            evaluation_program: None,
        }
    }
}

impl Default for DuckdbConfig {
    fn default() -> Self {
        Self {
            library: None,
            extensions: None,
            memory_bytes_max: 1024 * 1024 * 1024,
            threads_max: 4,
        }
    }
}

impl Default for PythonConfig {
    fn default() -> Self {
        Self {
            command: PathBuf::from("python3"),
            pool_max: 8,
            calls_max: 10_000,
            environments_dir: std::env::temp_dir().join("noetl-environments"),
            pip_environment: BTreeMap::new(),
        }
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            held_bytes_max: 64 * 1024 * 1024,
            streamed_bytes_max: 5 * 1024 * 1024 * 1024,
            redirects_max: 10,
            header_bytes_max: 64 * 1024,
            per_host_max: 32,
            connect: Duration::from_secs(10),
            total: Duration::from_secs(300),
        }
    }
}

impl Registry {
    /// A registry without any kind.
    pub fn empty() -> Self {
        Self {
            tools: BTreeMap::new(),
        }
    }

    /// Every kind that is built in.
    pub fn builtin(config: Config) -> Self {
        let clients = Arc::new(Clients::new(config.http, &config.network));
        let level = config.sandbox;
        let environment = config.environment;
        let shell = Shell::new(environment.clone(), level);
        let scripts = Arc::new(Scripts::new(clients.clone()));
        let python = Python::new(&config.python, environment.clone(), clients.clone(), level);
        let mcp = Mcp::new(clients.clone(), environment.clone(), level);
        let mut clients_env = environment.clone();
        clients_env.extend(config.container_environment);
        let container = Container::new(clients_env);
        let reach = Reach {
            forbidden: config.forbidden_files.clone(),
            guard: clients.guard.clone(),
            scratch_dir: config.scratch_dir.clone(),
        };
        let mut registry = Self::empty();
        for kind in ["s3", "gcs"] {
            registry.insert(kind, Arc::new(Objects::new(reach.clone())));
        }
        registry.insert("noop", Arc::new(Noop));
        registry.insert("container", Arc::new(container));
        registry.insert("mcp", Arc::new(mcp));
        let connections = Arc::new(Connections::default());
        let nats = Nats::new(reach.clone(), connections.clone());
        registry.insert("nats", Arc::new(nats));
        let postgres = Postgres::new(config.postgres.clone(), config.scratch_dir.clone());
        let scripted = |tool: Arc<dyn Tool>, key: &'static str| -> Arc<dyn Tool> {
            Arc::new(Scripted::new(tool, scripts.clone(), key))
        };
        registry.insert("postgres", scripted(Arc::new(postgres), "command"));
        let http = Http::new(clients, config.scratch_dir).keeping(config.forbidden_files.clone());
        let http = Arc::new(http);
        registry.insert("http", scripted(http.clone(), "body"));
        registry.insert("python", Arc::new(python));
        registry.insert("shell", scripted(Arc::new(shell), "command"));
        let evaluations = Arc::new(EvaluationProcesses::new(config.evaluation_program));
        registry.insert("rhai", Arc::new(Rhai::new(evaluations.clone())));
        registry.insert("transform", Arc::new(Transform::new(evaluations)));
        let artifact = Artifact::new(reach.clone(), connections);
        registry.insert("artifact", Arc::new(artifact));
        let guard = Guard::new(&config.forbidden_files, &config.postgres.allow);
        let databases = Databases::new(Libraries::new(config.duckdb), guard);
        let transfer = Transfer {
            reach,
            databases: databases.clone(),
            pools: Arc::new(Pools::new(config.postgres)),
            http,
        };
        registry.insert("transfer", Arc::new(transfer));
        let duckdb = Arc::new(Duckdb::new(databases));
        registry.insert("duckdb", scripted(duckdb, "command"));
        let sqlite = Arc::new(Sqlite::new(config.forbidden_files));
        registry.insert("sqlite", scripted(sqlite, "command"));
        for manifest in config.external {
            let name = manifest.name.clone();
            let external = External::new(manifest, environment.clone());
            registry.insert(&name, Arc::new(external));
        }
        registry
    }

    /// The tool of a kind.
    pub fn get(&self, kind: &str) -> Option<Arc<dyn Tool>> {
        self.tools.get(kind).cloned()
    }

    /// Adds a kind, or puts another tool in its place.
    pub fn insert(&mut self, kind: &str, tool: Arc<dyn Tool>) {
        self.tools.insert(kind.into(), tool);
    }

    /// The names of all kinds, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &Name> {
        self.tools.keys()
    }
}
