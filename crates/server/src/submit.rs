//! Submission: a playbook's text is checked, registered and started.

use engine::Submit;
use model::diagnostic::Diagnostic;
use model::event::Parent;
use model::id::{ExecutionId, Name};
use model::raw::Raw;
use store::MessageKey;
use tokio::sync::oneshot;

use crate::drive::{Order, Posted};
use crate::error::Error;
use crate::playbooks::{Registered, Unusable};
use crate::{Server, Shared};

/// A run that someone asks for.
#[derive(Debug, Clone)]
pub struct Submission {
    /// The file's path as it was given, or a catalog path.
    pub name: String,
    /// The playbook's text.
    pub text: String,
    /// Inputs over the playbook's own.
    pub payload: Option<Raw>,
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The playbook has errors; these and its warnings, in the order of the text.
    #[error("the playbook has errors")]
    Invalid(Vec<Diagnostic>),
    /// The server could not do it.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl Server {
    /// Starts a run; when this returns it is durable.
    pub async fn submit(&self, submission: Submission) -> Result<ExecutionId, SubmitError> {
        let playbooks = &self.shared.playbooks;
        let registered = playbooks.register(&submission.name, &submission.text).await;
        let registered = registered.map_err(|unusable| match unusable {
            Unusable::Invalid(diagnostics) => SubmitError::Invalid(diagnostics),
            Unusable::Store(error) => Error::Store(error).into(),
            Unusable::NotFound(_) => Error::Stopping.into(),
        })?;
        let execution = ExecutionId(self.shared.store.ids(1).0);
        let start = Start {
            execution,
            payload: submission.payload,
            parent: None,
            depth: 0,
            consumed: None,
        };
        start.run(&self.shared, registered).await?;
        Ok(execution)
    }
}

/// A run to start, by a person or by another run.
pub(crate) struct Start {
    pub(crate) execution: ExecutionId,
    pub(crate) payload: Option<Raw>,
    pub(crate) parent: Option<Parent>,
    pub(crate) depth: u32,
    pub(crate) consumed: Option<MessageKey>,
}

impl Start {
    /// Starts it and waits until that is durable.
    pub(crate) async fn run(self, shared: &Shared, registered: Registered) -> Result<(), Error> {
        registered.net.must_fit(self.payload.as_ref())?;
        let submit = Submit {
            execution: self.execution,
            path: Name::from(registered.entry.path.as_str()),
            version: registered.entry.version,
            hash: registered.entry.hash,
            payload: self.payload,
            parent: self.parent,
            depth: self.depth,
            trace_id: None,
        };
        let (reply, answer) = oneshot::channel();
        let order = Order::Submit {
            submit: Box::new(submit),
            net: registered.net,
            consumed: self.consumed,
            reply,
        };
        shared.drive.send(order).await?;
        match answer.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Posted::Failed(error))) => Err(error),
            Ok(Err(Posted::Refused(_))) | Err(_) => Err(Error::Stopping),
        }
    }
}
