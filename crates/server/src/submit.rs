//! Submission: checks a playbook's text, registers it and starts an execution.

use engine::{ExecutionRequest, Refusal, ReusePlan};
use language::diagnostic::Diagnostic;
use language::playbook::Step;
use language::template::ExecutionView;
use model::event::ParentTask;
use model::id::{ExecutionId, Name};
use model::labels::Labels;
use model::raw::RawJson;
use store::MessageKey;
use tokio::sync::oneshot;

use crate::driver::{DriverRequest, InputError};
use crate::error::Error;
use crate::keychain::StartingExecution;
use crate::playbooks::{PlaybookError, RegisteredPlaybook};
use crate::{Server, ServerShared};

/// A request to run a playbook text.
#[derive(Debug, Clone)]
pub struct SubmitRequest {
    /// Path of the file as it was given, or a catalog path.
    pub name: String,
    /// Text of the playbook.
    pub text: String,
    /// Inputs that override the playbook's defaults.
    pub payload: Option<RawJson>,
    /// Labels, which replace those of the playbook with the same keys.
    pub labels: Labels,
}

/// Parameters of an execution of a registered playbook.
#[derive(Debug, Clone, Default)]
pub struct ExecutionOptions {
    /// Inputs that override the playbook's defaults.
    pub payload: Option<RawJson>,
    /// Trace that the execution belongs to; with `None`, it gets its own.
    pub trace_id: Option<Name>,
    /// Labels, which replace those of the playbook with the same keys.
    pub labels: Labels,
}

/// Why an execution did not start.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The playbook has errors. Contains its errors and warnings in the order of the text.
    #[error("the playbook has errors")]
    Invalid(Vec<Diagnostic>),
    /// The catalog does not have this playbook.
    #[error("playbook `{0}` is not in the catalog")]
    NoPlaybook(String),
    /// The engine refuses the submission.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server failed.
    #[error(transparent)]
    Failed(#[from] Error),
}

impl From<PlaybookError> for SubmitError {
    fn from(unusable: PlaybookError) -> Self {
        match unusable {
            PlaybookError::Invalid(diagnostics) => Self::Invalid(diagnostics),
            PlaybookError::NotFound(path) => Self::NoPlaybook(path),
            PlaybookError::Store(error) => Error::Store(error).into(),
        }
    }
}

impl From<InputError> for SubmitError {
    fn from(posted: InputError) -> Self {
        match posted {
            InputError::Refused(refusal) => refusal.into(),
            InputError::Failed(error) => error.into(),
        }
    }
}

impl Server {
    /// Starts an execution; it is durable when this returns.
    pub async fn submit(&self, submission: SubmitRequest) -> Result<ExecutionId, SubmitError> {
        let registered = self.register(&submission.name, &submission.text).await?;
        let execution = self.new_execution_id();
        let request = ExecutionOptions {
            payload: submission.payload,
            trace_id: None,
            labels: submission.labels,
        };
        self.start_execution(execution, registered, request).await?;
        Ok(execution)
    }

    /// Starts an execution of a registered playbook under the caller's ID. Repeating the call does not start it again.
    pub async fn submit_from_catalog(
        &self,
        execution: ExecutionId,
        path: &str,
        version: Option<u32>,
        request: ExecutionOptions,
    ) -> Result<(), SubmitError> {
        let registered = self.shared.catalog.find_in_catalog(path, version).await?;
        self.start_execution(execution, registered, request).await
    }

    /// Generates an ID for a new execution.
    pub fn new_execution_id(&self) -> ExecutionId {
        ExecutionId(self.shared.store.ids(1).0)
    }

    /// Checks a text and registers it.
    pub(crate) async fn register(&self, path: &str, text: &str) -> Result<RegisteredPlaybook, SubmitError> {
        Ok(self.shared.catalog.register(path, text).await?)
    }

    async fn start_execution(
        &self,
        execution: ExecutionId,
        registered: RegisteredPlaybook,
        request: ExecutionOptions,
    ) -> Result<(), SubmitError> {
        let start = ExecutionStart {
            execution,
            payload: request.payload,
            parent: None,
            depth: 0,
            trace_id: request.trace_id,
            labels: request.labels,
            consumed: None,
            reuse: None,
        };
        Ok(start.submit(&self.shared, registered).await?)
    }
}

/// Logs the result stores that the playbook names and that are not configured; the default store is used instead.
fn warn_of_missing_stores(shared: &ServerShared, execution_id: ExecutionId, registered: &RegisteredPlaybook) {
    let steps = registered.net.playbook.steps.iter();
    for task in steps.flat_map(Step::all_tasks) {
        let store = task.result.store.as_ref().map(Name::as_str);
        let kind = store.and_then(::results::StoreKind::from_name);
        if let Some(remedy) = kind.and_then(|kind| shared.bodies.configuration_remedy(kind)) {
            let task = task.label.as_str();
            tracing::warn!(%execution_id, task, store, remedy, "result store not configured; using the default store");
        }
    }
}

/// An execution to start, requested by a client or by another execution.
pub(crate) struct ExecutionStart {
    pub(crate) execution: ExecutionId,
    pub(crate) payload: Option<RawJson>,
    pub(crate) parent: Option<ParentTask>,
    pub(crate) depth: u32,
    /// Trace that the execution belongs to; with `None`, it gets its own.
    pub(crate) trace_id: Option<Name>,
    /// Labels, which replace those of the playbook with the same keys.
    pub(crate) labels: Labels,
    pub(crate) consumed: Option<MessageKey>,
    pub(crate) reuse: Option<Box<ReusePlan>>,
}

impl ExecutionStart {
    /// Starts the execution and waits until it is durable.
    pub(crate) async fn submit(self, shared: &ServerShared, registered: RegisteredPlaybook) -> Result<(), InputError> {
        let fits = registered.net.check_payload_size(self.payload.as_ref());
        fits.map_err(InputError::Refused)?;
        warn_of_missing_stores(shared, self.execution, &registered);
        if shared.keychain.has_secrets(&registered.net.playbook) {
            self.check_keychain(shared, &registered).await?;
        }
        let consumed_message = self.consumed;
        let submit = self.into_request(shared, &registered);
        let (reply, response) = oneshot::channel();
        let submit_request = DriverRequest::Submit {
            submit: Box::new(submit),
            net: registered.net,
            consumed_message,
            reply,
        };
        shared.driver.send(submit_request).await?;
        match response.await {
            Ok(response) => response.map(|_| ()),
            Err(_) => Err(Error::Stopping.into()),
        }
    }

    /// The request to the engine.
    pub(crate) fn into_request(self, shared: &ServerShared, registered: &RegisteredPlaybook) -> ExecutionRequest {
        let labels = Labels::from_metadata(registered.net.playbook.metadata.get("labels"));
        ExecutionRequest {
            execution: self.execution,
            path: Name::from(registered.entry.path.as_str()),
            version: registered.entry.version,
            hash: registered.entry.hash.clone(),
            payload: self.payload,
            parent: self.parent,
            depth: self.depth,
            trace_id: self.trace_id,
            labels: labels.merged_with(&self.labels),
            reuse: self.reuse,
            env: shared.env.get().cloned(),
        }
    }

    /// Checks that the credentials can be resolved; otherwise the execution does not start.
    async fn check_keychain(&self, shared: &ServerShared, registered: &RegisteredPlaybook) -> Result<(), InputError> {
        let parent = self.parent.as_ref().map(|parent| parent.execution_id);
        let run = ExecutionView {
            execution_id: Some(self.execution),
            path: Some(registered.entry.path.as_str().into()),
            version: Some(registered.entry.version),
            parent_execution_id: parent,
        };
        let net = &registered.net;
        let payload = self.reuse.as_ref().map(|reuse| {
            let workload = reuse.merged_workload(self.payload.as_ref());
            RawJson::from_serializable(&workload)
        });
        let payload = payload.as_ref().or(self.payload.as_ref());
        let values = net.first_values(payload, run, shared.env.get().cloned());
        let beginning = StartingExecution {
            playbook: &net.playbook,
            execution: self.execution,
            parent,
            path: registered.entry.path.as_str(),
            workload: values.map_err(InputError::Refused)?.workload,
        };
        let checked = shared.keychain.check_execution(beginning).await;
        Ok(checked.map_err(Error::from)?)
    }
}
