//! Registry of the tool kinds that a worker can call.

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

/// Configuration of the built-in tools.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interpreters of the `python` tool.
    pub python: PythonConfig,
    /// Limits of the `http` tool.
    pub http: HttpLimits,
    /// Network access of tasks.
    pub network: Network,
    /// Connections of the `postgres` tool.
    pub postgres: PostgresConfig,
    /// Environment variables that programs inherit: `PATH`, `HOME`, `LANG`, `VIRTUAL_ENV`, if set.
    pub environment: BTreeMap<String, String>,
    /// Additional environment variables for container runtime clients, such as `DOCKER_HOST` and `KUBECONFIG`.
    pub container_environment: BTreeMap<String, String>,
    /// Minimum sandbox level of programs.
    pub sandbox: SandboxLevel,
    /// External tools of this deployment.
    pub external: Vec<Manifest>,
    /// Directory for temporary files; best on the same disk as the result store.
    pub scratch_dir: PathBuf,
    /// Files that tools refuse to open: NoETL's own store.
    pub forbidden_files: Vec<PathBuf>,
    /// Library of the `duckdb` tool.
    pub duckdb: DuckdbConfig,
    /// Program to start with [`EVALUATION_PROCESS_ARGUMENT`](crate::EVALUATION_PROCESS_ARGUMENT) for jq programs and
    /// Rhai scripts. If `None`, they run in this process without a memory limit.
    pub evaluation_program: Option<PathBuf>,
}

/// Library of the `duckdb` tool, and its limits.
#[derive(Debug, Clone)]
pub struct DuckdbConfig {
    /// Path of the library. Default: the usual library names.
    pub library: Option<PathBuf>,
    /// Directory of extensions, if not the default.
    pub extensions: Option<PathBuf>,
    /// Memory limit of a database before it spills to disk.
    pub memory_bytes_max: u64,
    /// Maximum number of threads of a database.
    pub threads_max: u32,
}

/// Interpreters of the `python` tool.
#[derive(Debug, Clone)]
pub struct PythonConfig {
    /// Interpreter: a path, or a name to find in `PATH`.
    pub command: PathBuf,
    /// Maximum number of concurrent calls, each in a separate interpreter.
    pub pool_max: usize,
    /// Number of calls after which an interpreter is replaced.
    pub calls_max: u64,
    /// Directory of virtual environments with the libraries of `libs`.
    pub environments_dir: PathBuf,
    /// Additional environment variables for pip, such as the index and the proxy.
    pub pip_environment: BTreeMap<String, String>,
}

/// Limits of the `http` tool.
#[derive(Debug, Clone, Copy)]
pub struct HttpLimits {
    /// Maximum size of a decompressed response in memory.
    pub held_bytes_max: usize,
    /// Maximum size of a decompressed response that is streamed to the result store.
    pub streamed_bytes_max: u64,
    /// Maximum number of redirects.
    pub redirects_max: usize,
    /// Maximum size of the response headers.
    pub header_bytes_max: u32,
    /// Maximum number of concurrent requests per host; further requests wait in order.
    pub per_host_max: usize,
    /// Default connect timeout.
    pub connect: Duration,
    /// Default timeout of a call.
    pub total: Duration,
}

/// The tool kinds that a worker can call.
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
    /// An empty registry.
    pub fn empty() -> Self {
        Self {
            tools: BTreeMap::new(),
        }
    }

    /// A registry with all built-in tools and the external tools.
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

    /// Adds a kind, or replaces its tool.
    pub fn insert(&mut self, kind: &str, tool: Arc<dyn Tool>) {
        self.tools.insert(kind.into(), tool);
    }

    /// The names of all kinds, sorted.
    pub fn kinds(&self) -> impl Iterator<Item = &Name> {
        self.tools.keys()
    }
}
