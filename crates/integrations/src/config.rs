//! Configuration of the kinds of this crate.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Configuration of the kinds of this crate.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Additional environment variables for container runtime clients, such as `DOCKER_HOST` and `KUBECONFIG`.
    pub container_environment: BTreeMap<String, String>,
    /// Library of the `duckdb` tool.
    pub duckdb: DuckdbConfig,
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
