//! Tool kinds that this binary was built without.

use async_trait::async_trait;
use model::outcome::{ErrorKind, TaskError};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult};

/// Stands for a kind that this binary was built without: every call fails and names the remedy.
pub struct KindNotBuilt(pub &'static str);

#[async_trait]
impl Tool for KindNotBuilt {
    async fn run(&self, _call: Call, _stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        Err(kind_not_built_error(self.0))
    }
}

/// Error of a task that needs a kind which is not in this binary.
pub(crate) fn kind_not_built_error(kind: &str) -> TaskError {
    let message = format!(
        "this binary was built without the kind `{kind}`: build `noetl` with `--features {kind}` or with its default \
         features, or send the step to a pool whose workers have the kind"
    );
    TaskError::new(ErrorKind::ClientError, "TOOL_NOT_BUILT", message).with_detail("kind", kind)
}
