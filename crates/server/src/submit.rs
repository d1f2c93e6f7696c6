//! Submission: a playbook's text is checked, registered and started.

use engine::{Refusal, Reuse, Submit};
use model::diagnostic::Diagnostic;
use model::event::Parent;
use model::id::{ExecutionId, Name};
use model::playbook::Step;
use model::raw::Raw;
use model::template::RunView;
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

/// Logs which stores the playbook names that are not configured: the default store takes their place.
fn warn_of_missing_stores(shared: &Shared, execution_id: ExecutionId, registered: &Registered) {
    let steps = registered.net.playbook.steps.iter();
    for task in steps.flat_map(Step::all_tasks) {
        let store = task.result.store.as_ref().map(Name::as_str);
        let kind = store.and_then(::results::Kind::named);
        if let Some(remedy) = kind.and_then(|kind| shared.bodies.missing(kind)) {
            let task = task.label.as_str();
            tracing::warn!(%execution_id, task, store, remedy, "store is not configured; using the default store");
        }
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
        warn_of_missing_stores(shared, self.execution, &registered);
        if shared.keychain.has_names(&registered.net.playbook) {
            self.check_keychain(shared, &registered).await?;
        }
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
            env: shared.env.get().cloned(),
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

    /// A run whose credentials cannot be had does not begin.
    async fn check_keychain(&self, shared: &Shared, registered: &Registered) -> Result<(), Posted> {
        let parent = self.parent.as_ref().map(|parent| parent.execution_id);
        let run = RunView {
            execution_id: Some(self.execution),
            path: Some(registered.entry.path.as_str().into()),
            version: Some(registered.entry.version),
            parent_execution_id: parent,
        };
        let net = &registered.net;
        let payload = self.reuse.as_ref().map(|reuse| {
            let workload = reuse.workload(self.payload.as_ref());
            Raw::of(&workload)
        });
        let payload = payload.as_ref().or(self.payload.as_ref());
        let values = net.first_values(payload, run, shared.env.get().cloned());
        let beginning = Beginning {
            playbook: &net.playbook,
            execution: self.execution,
            parent,
            path: registered.entry.path.as_str(),
            workload: values.map_err(Posted::Refused)?.workload,
        };
        let checked = shared.keychain.check(beginning).await;
        Ok(checked.map_err(Error::from)?)
    }
}
