//! Runs one call of an external tool.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error};
use crate::external::manifest::KindManifest;
use crate::external::pool::ProcessPool;
use crate::external::process::ProcessReply;

/// An external tool.
pub(crate) struct ExternalTool {
    manifest: KindManifest,
    pool: ProcessPool,
}

impl ExternalTool {
    pub(crate) fn new(manifest: KindManifest, env: BTreeMap<String, String>) -> Self {
        Self {
            pool: ProcessPool::new(&manifest, env),
            manifest,
        }
    }

    #[cfg(test)]
    pub(super) fn manifest(&self) -> &KindManifest {
        &self.manifest
    }
}

#[async_trait]
impl Tool for ExternalTool {
    fn is_pure(&self) -> bool {
        self.manifest.pure
    }

    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        let call = &call;
        if let Some(fault) = self.manifest.find_field_problems(&call.fields).into_iter().next() {
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", fault));
        }
        let _slot = tokio::select! {
            slot = self.pool.acquire_slot() => slot,
            () = stop.cancelled() => return Err(cancelled_error()),
        };
        let name = &self.manifest.name;
        let mut peer = self.pool.check_out(&self.manifest).map_err(|error| {
            if let Some(error) = error.host_error() {
                return error;
            }
            let program = self.manifest.program_path();
            let message = format!(
                "cannot start `{}` of kind `{name}`: {}",
                program.display(),
                error.cause()
            );
            TaskError::new(ErrorKind::ClientError, "TOOL_START", message)
        })?;
        match peer.run(call, stop, log).await {
            ProcessReply::Completed(outcome) => {
                self.pool.check_in(peer);
                Ok(*outcome)
            }
            ProcessReply::Died => {
                let message = format!("the program of kind `{name}` exited before it responded");
                Err(TaskError::new(ErrorKind::Unknown, "TOOL_DIED", message))
            }
            ProcessReply::Malformed(what) => {
                let message = format!("protocol error: the program of kind `{name}` sent {what}");
                Err(TaskError::new(ErrorKind::Unknown, "TOOL_PROTOCOL", message))
            }
            ProcessReply::TimedOut(limit) => Err(timeout_error(limit)),
            ProcessReply::Stopped => Err(cancelled_error()),
        }
    }
}
