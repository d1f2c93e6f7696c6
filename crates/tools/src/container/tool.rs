//! Runs one `container` call: finds the runtime, runs the image and returns the outcome.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::outcome::{Outcome, TaskError};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool};
use crate::container::cli::Cli;
use crate::container::plan::{Plan, Runtime};
use crate::container::{docker, kubernetes};

/// The `container` tool.
pub(crate) struct Container {
    /// Environment of the runtime clients: their `PATH` and the addresses of the runtimes.
    env: BTreeMap<String, String>,
}

impl Container {
    pub(crate) fn new(env: BTreeMap<String, String>) -> Self {
        Self { env }
    }

    async fn run(
        &self,
        call: &Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Outcome, TaskError> {
        let plan = Plan::of(call)?;
        let cli = Cli::find(Runtime::of(call)?, &self.env)?;
        let limit = call.timeout.total;
        match cli.runtime {
            Runtime::Docker | Runtime::Podman => docker::run(&cli, &plan, limit, stop, log).await,
            Runtime::Kubernetes => kubernetes::run(&cli, &plan, limit, stop, log).await,
        }
    }
}

#[async_trait]
impl Tool for Container {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop, log).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}
