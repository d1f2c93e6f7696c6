//! Registry of the tool kinds that a worker can call.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::Name;

use crate::artifact::ArtifactTool;
use crate::call::Tool;
use crate::evaluation::EvaluationProcesses;
use crate::external::{ExternalTool, KindManifest};
use crate::isolation::SandboxLevel;
use crate::network::NetworkConfig;
use crate::noop::NoopTool;
use crate::objects::ObjectsTool;
use crate::postgres::{PostgresConfig, PostgresTool};
use crate::python::PythonTool;
use crate::rhai::RhaiTool;
use crate::shared_resources::SharedResources;
use crate::shell::ShellTool;
use crate::sqlite::SqliteTool;
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
    /// Minimum sandbox level of programs.
    pub sandbox: SandboxLevel,
    /// External tools of this deployment.
    pub external: Vec<KindManifest>,
    /// Directory for temporary files; best on the same disk as the result store.
    pub scratch_dir: PathBuf,
    /// Files that tools refuse to open: NoETL's own store.
    pub forbidden_files: Vec<PathBuf>,
    /// Program to start with [`EVALUATION_PROCESS_ARGUMENT`](crate::EVALUATION_PROCESS_ARGUMENT) for jq programs and
    /// Rhai scripts. If `None`, they run in this process without a memory limit.
    pub evaluation_program: Option<PathBuf>,
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
            sandbox: SandboxLevel::None,
            external: Vec::new(),
            scratch_dir: std::env::temp_dir(),
            forbidden_files: Vec::new(),
            evaluation_program: None,
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
        Self { tools: BTreeMap::new() }
    }

    /// A registry with the kinds of this crate and the external tools.
    pub fn builtin(config: Config) -> Self {
        Self::from_resources(&SharedResources::new(config))
    }

    /// A registry with the kinds of this crate and the external tools, from resources that further kinds also use.
    pub fn from_resources(resources: &SharedResources) -> Self {
        let config = &resources.config;
        let level = config.sandbox;
        let environment = &config.environment;
        let access = &resources.object_access;
        let mut registry = Self::empty();
        for kind in ["s3", "gcs"] {
            registry.insert(kind, Arc::new(ObjectsTool::new(access.clone())));
        }
        registry.insert("noop", Arc::new(NoopTool));
        let postgres = PostgresTool::new(config.postgres.clone(), config.scratch_dir.clone());
        let postgres = resources.with_scripts(Arc::new(postgres), "command");
        registry.insert("postgres", postgres);
        let http = resources.with_scripts(resources.http.clone(), "body");
        registry.insert("http", http);
        let clients = resources.clients.clone();
        let python = PythonTool::new(&config.python, environment.clone(), clients, level);
        registry.insert("python", Arc::new(python));
        let shell = Arc::new(ShellTool::new(environment.clone(), level));
        registry.insert("shell", resources.with_scripts(shell, "command"));
        let evaluations = Arc::new(EvaluationProcesses::new(config.evaluation_program.clone()));
        registry.insert("rhai", Arc::new(RhaiTool::new(evaluations.clone())));
        registry.insert("transform", Arc::new(TransformTool::new(evaluations)));
        let artifact = ArtifactTool::new(access.clone(), resources.nats_buckets.clone());
        registry.insert("artifact", Arc::new(artifact));
        let sqlite = Arc::new(SqliteTool::new(config.forbidden_files.clone()));
        registry.insert("sqlite", resources.with_scripts(sqlite, "command"));
        for manifest in &config.external {
            let external = ExternalTool::new(manifest.clone(), environment.clone());
            registry.insert(&manifest.name, Arc::new(external));
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
