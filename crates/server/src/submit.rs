//! Submission: a playbook's text is checked, registered and started.

use engine::{Refusal, Reuse, Submit};
use model::diagnostic::Diagnostic;
use model::event::Parent;
use model::id::{ExecutionId, Name};
use model::raw::Raw;
use store::MessageKey;
use tokio::sync::oneshot;

use crate::drive::{Order, Posted};
use crate::error::Error;
use crate::keychain::Beginning;
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

/// What a run of a registered playbook is given.
#[derive(Debug, Clone, Default)]
pub struct RunRequest {
    /// Inputs over the playbook's own.
    pub payload: Option<Raw>,
    /// The trace it belongs to; none: one of its own.
    pub trace_id: Option<Name>,
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The playbook has errors; these and its warnings, in the order of the text.
    #[error("the playbook has errors")]
    Invalid(Vec<Diagnostic>),
    /// The catalog has no such playbook.
    #[error("playbook `{0}` is not in the catalog")]
    NoPlaybook(String),
    /// The engine does not take it.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server could not do it.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<Unusable> for SubmitError {
    fn from(unusable: Unusable) -> Self {
        match unusable {
            Unusable::Invalid(diagnostics) => Self::Invalid(diagnostics),
            Unusable::NotFound(path) => Self::NoPlaybook(path),
            Unusable::Store(error) => Error::Store(error).into(),
        }
    }
}

impl From<Posted> for SubmitError {
    fn from(posted: Posted) -> Self {
        match posted {
            Posted::Refused(refusal) => refusal.into(),
            Posted::Failed(error) => error.into(),
        }
    }
}

impl Server {
    /// Starts a run; when this returns it is durable.
    pub async fn submit(&self, submission: Submission) -> Result<ExecutionId, SubmitError> {
        let registered = self.register(&submission.name, &submission.text).await?;
        let execution = self.fresh_id();
        let request = RunRequest {
            payload: submission.payload,
            trace_id: None,
        };
        self.start_run(execution, registered, request).await?;
        Ok(execution)
    }

    /// Starts a run of a playbook in the catalog under an id that the caller has; starting it twice starts it once.
    pub async fn submit_from_catalog(
        &self,
        execution: ExecutionId,
        path: &str,
        version: Option<u32>,
        request: RunRequest,
    ) -> Result<(), SubmitError> {
        let registered = self.shared.playbooks.catalogued(path, version).await?;
        self.start_run(execution, registered, request).await
    }

    /// An id for a run to be.
    pub fn fresh_id(&self) -> ExecutionId {
        ExecutionId(self.shared.store.ids(1).0)
    }

    /// Checks a text and puts it into the catalog.
    pub(crate) async fn register(&self, path: &str, text: &str) -> Result<Registered, SubmitError> {
        Ok(self.shared.playbooks.register(path, text).await?)
    }

    async fn start_run(
        &self,
        execution: ExecutionId,
        registered: Registered,
        request: RunRequest,
    ) -> Result<(), SubmitError> {
        let start = Start {
            execution,
            payload: request.payload,
            parent: None,
            depth: 0,
            trace_id: request.trace_id,
            consumed: None,
            reuse: None,
        };
        Ok(start.run(&self.shared, registered).await?)
    }
}

/// A run to start, by a person or by another run.
pub(crate) struct Start {
    pub(crate) execution: ExecutionId,
    pub(crate) payload: Option<Raw>,
    pub(crate) parent: Option<Parent>,
    pub(crate) depth: u32,
    /// The trace it belongs to; none: its own.
    pub(crate) trace_id: Option<Name>,
    pub(crate) consumed: Option<MessageKey>,
    pub(crate) reuse: Option<Box<Reuse>>,
}

impl Start {
    /// Starts it and waits until that is durable.
    pub(crate) async fn run(self, shared: &Shared, registered: Registered) -> Result<(), Posted> {
        let fits = registered.net.must_fit(self.payload.as_ref());
        fits.map_err(Posted::Refused)?;
        let beginning = Beginning {
            net: &registered.net,
            execution: self.execution,
            parent: self.parent.as_ref().map(|parent| parent.execution_id),
            path: registered.entry.path.as_str(),
            payload: self.payload.as_ref(),
        };
        shared
            .keychain
            .check(beginning)
            .await
            .map_err(Error::from)?;
        let submit = Submit {
            execution: self.execution,
            path: Name::from(registered.entry.path.as_str()),
            version: registered.entry.version,
            hash: registered.entry.hash,
            payload: self.payload,
            parent: self.parent,
            depth: self.depth,
            trace_id: self.trace_id,
            reuse: self.reuse,
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
            Ok(answer) => answer.map(|_| ()),
            Err(_) => Err(Error::Stopping.into()),
        }
    }
}
