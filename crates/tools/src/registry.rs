//! Registry of the tool kinds that a worker can call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::Name;

use crate::artifact::ArtifactTool;
use crate::call::Tool;
use crate::container::ContainerTool;
use crate::duckdb::{DatabasePool, DuckdbTool, LibraryLoader, StoreGuard};
use crate::evaluation::EvaluationProcesses;
use crate::external::{ExternalTool, KindManifest};
use crate::http::{HttpClients, HttpTool};
use crate::isolation::SandboxLevel;
use crate::mcp::McpTool;
use crate::nats::{NatsConnections, NatsTool};
use crate::network::NetworkConfig;
use crate::noop::NoopTool;
use crate::objects::{ObjectAccess, ObjectsTool};
use crate::postgres::{PostgresConfig, PostgresPools, PostgresTool};
use crate::python::PythonTool;
use crate::rhai::RhaiTool;
use crate::script::{ScriptLoader, ScriptLoadingTool};
use crate::shell::ShellTool;
use crate::sqlite::SqliteTool;
use crate::transfer::TransferTool;
use crate::transform::TransformTool;

/// Configuration of the built-in tools.
#[derive(Debug, Clone)]
pub struct Config {
    /// Interpreters of the `python` tool.
    pub python: PythonConfig,
    /// Limits of the `http` tool.
    pub http: HttpLimits,
    /// Network access of tasks.
    pub network: NetworkConfig,
    /// Connections of the `postgres` tool.
    pub postgres: PostgresConfig,
    /// Environment variables that programs inherit: `PATH`, `HOME`, `LANG`, `VIRTUAL_ENV`, if set.
    pub environment: BTreeMap<String, String>,
    /// Additional environment variables for container runtime clients, such as `DOCKER_HOST` and `KUBECONFIG`.
    pub container_environment: BTreeMap<String, String>,
    /// Minimum sandbox level of programs.
    pub sandbox: SandboxLevel,
    /// External tools of this deployment.
    pub external: Vec<KindManifest>,
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
    pub memory_bytes_max: usize,
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
            network: NetworkConfig::default(),
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
            memory_bytes_max: 64 * 1024 * 1024,
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
        let clients = Arc::new(HttpClients::new(config.http, &config.network));
        let level = config.sandbox;
        let environment = config.environment;
        let shell = ShellTool::new(environment.clone(), level);
        let scripts = Arc::new(ScriptLoader::new(clients.clone()));
        let python = PythonTool::new(&config.python, environment.clone(), clients.clone(), level);
        let mcp = McpTool::new(clients.clone(), environment.clone(), level);
        let mut clients_env = environment.clone();
        clients_env.extend(config.container_environment);
        let container = ContainerTool::new(clients_env);
        let reach = ObjectAccess {
            forbidden: config.forbidden_files.clone(),
            guard: clients.guard.clone(),
            scratch_dir: config.scratch_dir.clone(),
        };
        let mut registry = Self::empty();
        for kind in ["s3", "gcs"] {
            registry.insert(kind, Arc::new(ObjectsTool::new(reach.clone())));
        }
        registry.insert("noop", Arc::new(NoopTool));
        registry.insert("container", Arc::new(container));
        registry.insert("mcp", Arc::new(mcp));
        let connections = Arc::new(NatsConnections::default());
        let nats = NatsTool::new(reach.clone(), connections.clone());
        registry.insert("nats", Arc::new(nats));
        let postgres = PostgresTool::new(config.postgres.clone(), config.scratch_dir.clone());
        let scripted = |tool: Arc<dyn Tool>, key: &'static str| -> Arc<dyn Tool> {
            Arc::new(ScriptLoadingTool::new(tool, scripts.clone(), key))
        };
        registry.insert("postgres", scripted(Arc::new(postgres), "command"));
        let http = HttpTool::new(clients, config.scratch_dir)
            .with_forbidden_files(config.forbidden_files.clone());
        let http = Arc::new(http);
        registry.insert("http", scripted(http.clone(), "body"));
        registry.insert("python", Arc::new(python));
        registry.insert("shell", scripted(Arc::new(shell), "command"));
        let evaluations = Arc::new(EvaluationProcesses::new(config.evaluation_program));
        registry.insert("rhai", Arc::new(RhaiTool::new(evaluations.clone())));
        registry.insert("transform", Arc::new(TransformTool::new(evaluations)));
        let artifact = ArtifactTool::new(reach.clone(), connections);
        registry.insert("artifact", Arc::new(artifact));
        let guard = StoreGuard::new(&config.forbidden_files, &config.postgres.allow);
        let databases = DatabasePool::new(LibraryLoader::new(config.duckdb), guard);
        let transfer = TransferTool {
            object_access: reach,
            databases: databases.clone(),
            pools: Arc::new(PostgresPools::new(config.postgres)),
            http,
        };
        registry.insert("transfer", Arc::new(transfer));
        let duckdb = Arc::new(DuckdbTool::new(databases));
        registry.insert("duckdb", scripted(duckdb, "command"));
        let sqlite = Arc::new(SqliteTool::new(config.forbidden_files));
        registry.insert("sqlite", scripted(sqlite, "command"));
        for manifest in config.external {
            let name = manifest.name.clone();
            let external = ExternalTool::new(manifest, environment.clone());
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
