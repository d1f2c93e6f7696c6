//! Runs one call of an external tool.

use std::collections::BTreeMap;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, timed_out};
use crate::external::manifest::Manifest;
use crate::external::pool::Pool;
use crate::external::process::Reply;

/// An external tool.
pub(crate) struct External {
    manifest: Manifest,
    pool: Pool,
}

impl External {
    pub(crate) fn new(manifest: Manifest, env: BTreeMap<String, String>) -> Self {
        Self {
            pool: Pool::new(&manifest, env),
            manifest,
        }
    }

    #[cfg(test)]
    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    async fn run(
        &self,
        call: &Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Outcome, TaskError> {
        if let Some(fault) = self.manifest.faults_of(&call.fields).into_iter().next() {
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", fault));
        }
        let _slot = tokio::select! {
            slot = self.pool.slot() => slot,
            () = stop.cancelled() => return Err(cancelled()),
        };
        let name = &self.manifest.name;
        let mut peer = self.pool.check_out(&self.manifest).map_err(|error| {
            if let Some(error) = error.host_error() {
                return error;
            }
            let program = self.manifest.program();
            let message = format!(
                "cannot start `{}` of kind `{name}`: {}",
                program.display(),
                error.cause()
            );
            TaskError::new(ErrorKind::ClientError, "TOOL_START", message)
        })?;
        match peer.run(call, stop, log).await {
            Reply::Answered(outcome) => {
                self.pool.put_back(peer);
                Ok(*outcome)
            }
            Reply::Died => {
                let message = format!("the program of kind `{name}` exited before it responded");
                Err(TaskError::new(ErrorKind::Unknown, "TOOL_DIED", message))
            }
            Reply::Nonsense(what) => {
                let message = format!("protocol error: the program of kind `{name}` sent {what}");
                Err(TaskError::new(ErrorKind::Unknown, "TOOL_PROTOCOL", message))
            }
            Reply::TimedOut(limit) => Err(timed_out(limit)),
            Reply::Stopped => Err(cancelled()),
        }
    }
}

#[async_trait]
impl Tool for External {
    fn is_pure(&self) -> bool {
        self.manifest.pure
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        match self.run(&call, &stop, log).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}
