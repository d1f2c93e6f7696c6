//! Runs one `container` call: finds the runtime, runs the image and returns the outcome.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use tools::{Call, LogSink, Tool, ToolResult};

use crate::container::cli::RuntimeCli;
use crate::container::spec::{ContainerRuntime, ContainerSpec};
use crate::container::{docker, kubernetes};

/// The `container` tool.
pub(crate) struct ContainerTool {
    /// Environment of the runtime clients: their `PATH` and the addresses of the runtimes.
    env: BTreeMap<String, String>,
}

impl ContainerTool {
    pub(crate) fn new(env: BTreeMap<String, String>) -> Self {
        Self { env }
    }
}

#[async_trait]
impl Tool for ContainerTool {
    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        let call = &call;
        let spec = ContainerSpec::from_call(call)?;
        let cli = RuntimeCli::find(ContainerRuntime::from_call(call)?, &self.env)?;
        let limit = call.timeout.total;
        match cli.runtime {
            ContainerRuntime::Docker | ContainerRuntime::Podman => {
                docker::run_container(&cli, &spec, limit, stop, log).await
            }
            ContainerRuntime::Kubernetes => kubernetes::run_job(&cli, &spec, limit, stop, log).await,
        }
    }
}
