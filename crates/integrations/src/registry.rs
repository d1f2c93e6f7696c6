//! Registry of a worker with the kinds of this crate and of `tools`.

use std::sync::Arc;

#[cfg(feature = "transfer")]
use tools::postgres::PostgresPools;
use tools::{KindNotBuilt, Registry, SharedResources};

use crate::config::Config;
#[cfg(feature = "container")]
use crate::container::ContainerTool;
#[cfg(feature = "duckdb")]
use crate::duckdb::{DatabasePool, DuckdbTool, LibraryLoader, StoreGuard};
#[cfg(feature = "mcp")]
use crate::mcp::McpTool;
#[cfg(feature = "nats")]
use crate::nats::{ConnectedNatsBuckets, NatsConnections, NatsTool};
#[cfg(feature = "transfer")]
use crate::transfer::TransferTool;

/// Kinds of this crate, each with whether this binary has it.
const KINDS: [(&str, bool); 5] = [
    ("container", cfg!(feature = "container")),
    ("duckdb", cfg!(feature = "duckdb")),
    ("mcp", cfg!(feature = "mcp")),
    ("nats", cfg!(feature = "nats")),
    ("transfer", cfg!(feature = "transfer")),
];

/// Whether this binary has a built-in kind.
pub fn is_built(kind: &str) -> bool {
    !KINDS.contains(&(kind, false))
}

/// A registry with all built-in kinds and the external tools. A kind that is not in this binary fails its calls.
pub fn build_registry(tools: tools::Config, config: Config) -> Registry {
    #[cfg(feature = "nats")]
    let connections = Arc::new(NatsConnections::default());
    let resources = SharedResources::new(tools);
    #[cfg(feature = "nats")]
    let resources = {
        let buckets = ConnectedNatsBuckets::new(connections.clone());
        resources.with_nats_buckets(Arc::new(buckets))
    };
    let mut registry = Registry::from_resources(&resources);
    for (kind, _) in KINDS.into_iter().filter(|(_, is_built)| !is_built) {
        registry.insert(kind, Arc::new(KindNotBuilt(kind)));
    }
    #[cfg(feature = "nats")]
    {
        let nats = NatsTool::new(resources.object_access.clone(), connections);
        registry.insert("nats", Arc::new(nats));
    }
    #[cfg(feature = "mcp")]
    registry.insert("mcp", Arc::new(mcp_tool(&resources)));
    add_configured_kinds(&mut registry, &resources, config);
    registry
}

/// Adds the kinds that need the configuration of this crate.
#[cfg_attr(
    not(any(feature = "container", feature = "duckdb")),
    expect(unused_variables, reason = "this binary has none of these kinds")
)]
fn add_configured_kinds(registry: &mut Registry, resources: &SharedResources, config: Config) {
    #[cfg(feature = "container")]
    {
        let mut environment = resources.config.environment.clone();
        environment.extend(config.container_environment);
        registry.insert("container", Arc::new(ContainerTool::new(environment)));
    }
    #[cfg(feature = "duckdb")]
    {
        let guard = StoreGuard::new(&resources.config.forbidden_files, &resources.config.postgres.allow);
        let databases = DatabasePool::new(LibraryLoader::new(config.duckdb), guard);
        #[cfg(feature = "transfer")]
        registry.insert("transfer", Arc::new(transfer_tool(resources, databases.clone())));
        let duckdb = Arc::new(DuckdbTool::new(databases));
        registry.insert("duckdb", resources.with_scripts(duckdb, "command"));
    }
}

#[cfg(feature = "mcp")]
fn mcp_tool(resources: &SharedResources) -> McpTool {
    let config = &resources.config;
    McpTool::new(resources.clients.clone(), config.environment.clone(), config.sandbox)
}

#[cfg(feature = "transfer")]
fn transfer_tool(resources: &SharedResources, databases: DatabasePool) -> TransferTool {
    TransferTool {
        object_access: resources.object_access.clone(),
        databases,
        pools: Arc::new(PostgresPools::new(resources.config.postgres.clone())),
        http: resources.http.clone(),
    }
}

#[cfg(test)]
mod tests {
    use model::outcome::Outcome;
    use serde_json::json;
    use tools::testing::{build_call, expect_error, run_tool};

    use super::*;

    #[tokio::test]
    async fn the_error_of_a_missing_kind_names_the_kind_and_the_remedy() {
        let call = build_call("duckdb", json!({"command": "SELECT 1"}), json!({}));
        let outcome: Outcome = run_tool(&KindNotBuilt("duckdb"), call).await;
        let error = expect_error(&outcome);
        assert_eq!(error.code, "TOOL_NOT_BUILT");
        for part in ["without the kind `duckdb`", "--features duckdb"] {
            assert!(error.message.contains(part), "{}", error.message);
        }
    }

    #[test]
    fn a_registry_has_all_built_in_kinds() {
        let registry = build_registry(tools::Config::default(), Config::default());
        for (kind, _) in KINDS {
            assert!(registry.get(kind).is_some(), "{kind}");
        }
        assert!(is_built("http"));
    }

    #[tokio::test]
    async fn a_nats_bucket_requires_a_credential() {
        let registry = build_registry(tools::Config::default(), Config::default());
        let artifact = registry.get("artifact").unwrap();
        for uri in ["nats-kv://b/k", "nats-obj://b/k"] {
            let call = build_call("artifact", json!({"uri": uri}), json!({}));
            let outcome = run_tool(&*artifact, call).await;
            let code = if is_built("nats") {
                "AUTH_INVALID"
            } else {
                "TOOL_NOT_BUILT"
            };
            assert_eq!(expect_error(&outcome).code, code);
        }
    }
}
