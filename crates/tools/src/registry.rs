//! The kinds of tools a worker can call, by name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::id::Name;

use crate::artifact::Artifact;
use crate::call::Tool;
use crate::container::Container;
use crate::http::{Clients, Http};
use crate::mcp::Mcp;
use crate::nats::Nats;
use crate::network::Network;
use crate::noop::Noop;
use crate::python::Python;
use crate::rhai::Rhai;
use crate::shell::Shell;
use crate::sqlite::Sqlite;
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
    /// What programs inherit: `PATH`, `HOME`, `LANG`, `VIRTUAL_ENV`, as far as they are set.
    pub environment: BTreeMap<String, String>,
    /// What the clients of container runtimes find besides: `DOCKER_HOST`, `KUBECONFIG` and their like.
    pub container_environment: BTreeMap<String, String>,
    /// Where responses wait while they are received; best on the disk that also holds bodies.
    pub scratch_dir: PathBuf,
    /// Files that `sqlite` and `artifact` refuse to open: the engine's own store.
    pub forbidden_files: Vec<PathBuf>,
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
            environment: BTreeMap::from([(
                "PATH".to_owned(),
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            )]),
            container_environment: BTreeMap::new(),
            scratch_dir: std::env::temp_dir(),
            forbidden_files: Vec::new(),
        }
    }
}

impl Default for PythonConfig {
    fn default() -> Self {
        Self {
            command: PathBuf::from("python3"),
            pool_max: 8,
            calls_max: 10_000,
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
        let shell = Shell::new(config.environment.clone());
        let mcp = Mcp::new(clients.clone(), config.environment.clone());
        let mut clients_env = config.environment.clone();
        clients_env.extend(config.container_environment);
        let container = Container::new(clients_env);
        let python = Python::new(&config.python, config.environment, clients.clone());
        let mut registry = Self::empty();
        registry.insert("noop", Arc::new(Noop));
        registry.insert("container", Arc::new(container));
        registry.insert("mcp", Arc::new(mcp));
        registry.insert("nats", Arc::new(Nats::new(config.scratch_dir.clone())));
        registry.insert("http", Arc::new(Http::new(clients, config.scratch_dir)));
        registry.insert("python", Arc::new(python));
        registry.insert("shell", Arc::new(shell));
        registry.insert("rhai", Arc::new(Rhai));
        registry.insert("transform", Arc::new(Transform));
        let artifact = Artifact::new(config.forbidden_files.clone());
        registry.insert("artifact", Arc::new(artifact));
        registry.insert("sqlite", Arc::new(Sqlite::new(config.forbidden_files)));
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
