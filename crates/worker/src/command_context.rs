//! Context of a claimed command: everything that its pipelines share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use language::playbook::Step;
use language::template::{IterationView, LazyValue, LoadedValues, Scope};
use model::command::Command;
use model::event::{EventBody, EventLocation, EventSource, ReportedEvent};
use model::id::{ExecutionId, Name};
use model::outcome::TaskError;
use model::playbook::LoopMode;
use model::raw::RawJson;
use model::time::Time;
use tempfile::TempDir;

use crate::context_scope::context_scope;
use crate::lease::{CommandLease, LeaseLost};
use crate::loaded_cache::LoadedCache;
use crate::playbooks::{PreparedPlaybook, StepPlan};
use crate::scratch;
use crate::secrets::ExecutionSecrets;
use crate::worker::WorkerShared;

/// A claimed command with everything that its pipelines share.
pub(crate) struct CommandContext {
    pub(crate) shared: Arc<WorkerShared>,
    pub(crate) lease: Arc<CommandLease>,
    pub(crate) command: Command,
    pub(crate) execution_context: Arc<wire::ExecutionContext>,
    pub(crate) prepared_playbook: Arc<PreparedPlaybook>,
    /// Values loaded for any pipeline of the command.
    loaded_cache: Mutex<LoadedCache>,
    /// Files for its tasks; the directory is created on first use.
    scratch_files: Mutex<ScratchFiles>,
    /// Tasks for which a `select` warning was logged.
    warned_tasks: Mutex<BTreeSet<Name>>,
    /// Secrets of the execution, set when the first one is known; kept until the command ends.
    pub(crate) secrets: OnceLock<Arc<ExecutionSecrets>>,
}

/// Directory of numbered files.
#[derive(Default)]
struct ScratchFiles {
    dir: Option<TempDir>,
    file_count: u32,
}

/// Why an operation ended without a result.
#[derive(Debug)]
pub(crate) enum WorkError {
    /// It failed: the task or step fails with this error.
    Failed(Box<TaskError>),
    /// The worker was stopped before the operation was done.
    Interrupted,
}

impl From<TaskError> for WorkError {
    fn from(error: TaskError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<Box<TaskError>> for WorkError {
    fn from(error: Box<TaskError>) -> Self {
        Self::Failed(error)
    }
}

impl From<LeaseLost> for WorkError {
    fn from(LeaseLost: LeaseLost) -> Self {
        Self::Interrupted
    }
}

impl CommandContext {
    pub(crate) fn new(
        shared: Arc<WorkerShared>,
        lease: Arc<CommandLease>,
        prepared_playbook: Arc<PreparedPlaybook>,
        command: Command,
        execution_context: Arc<wire::ExecutionContext>,
    ) -> Self {
        Self {
            shared,
            lease,
            command,
            execution_context,
            prepared_playbook,
            loaded_cache: Mutex::default(),
            scratch_files: Mutex::default(),
            warned_tasks: Mutex::default(),
            secrets: OnceLock::new(),
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.command.id.execution
    }

    /// Returns the step that the command runs, and its plan.
    pub(crate) fn step(&self) -> Option<(&Step, &StepPlan)> {
        self.prepared_playbook.step(&self.command.run.step)
    }

    /// Location of the step run in events.
    pub(crate) fn location(&self) -> EventLocation {
        EventLocation::of_step_run(&self.command.run)
    }

    pub(crate) fn now(&self) -> Time {
        self.shared.config.clock.now()
    }

    /// Template scope that every pipeline of the command starts with.
    pub(crate) fn scope(&self) -> Scope {
        let mut scope = context_scope(&self.execution_context);
        if let Some(args) = &self.command.args {
            scope.args = LazyValue::from_raw(args.clone());
        }
        scope.env.clone_from(&self.shared.env);
        // Steps without a loop see the iteration in which their playbook was started.
        scope.iter = self.parent_iter().map(|parent| IterationView {
            parent: Some(parent),
            ..IterationView::default()
        });
        scope.loaded = self.loaded_values();
        scope
    }

    /// Returns the values loaded so far.
    pub(crate) fn loaded_values(&self) -> Arc<LoadedValues> {
        self.loaded_cache.lock().expect("the lock is not poisoned").loaded()
    }

    /// Adds loaded values, for every pipeline of the command.
    pub(crate) fn add_loaded(&self, more: LoadedValues, sizes: Vec<(String, u64)>) -> Arc<LoadedValues> {
        let mut cache = self.loaded_cache.lock().expect("the lock is not poisoned");
        cache.add(more, sizes);
        cache.loaded()
    }

    /// Whether no `select` warning was logged for this task yet.
    pub(crate) fn is_first_warning(&self, task: &Name) -> bool {
        let mut warned = self.warned_tasks.lock().expect("the lock is not poisoned");
        warned.insert(task.clone())
    }

    /// Returns the path of a new file of this command.
    pub(crate) fn next_scratch_path(&self) -> Result<PathBuf, Box<TaskError>> {
        let mut scratch = self.scratch_files.lock().expect("the lock is not poisoned");
        let folder = match scratch.dir.take() {
            Some(folder) => folder,
            None => scratch::create_scratch_dir(&self.shared.config.scratch_dir)?,
        };
        scratch.file_count += 1;
        let path = folder.path().join(format!("{}.json", scratch.file_count));
        scratch.dir = Some(folder);
        Ok(path)
    }

    /// Builds an event with the current time.
    pub(crate) fn event(&self, location: EventLocation, body: EventBody) -> ReportedEvent {
        worker_event(&self.shared, self.execution(), location, body)
    }

    /// Builds an event with the duration since `start`.
    pub(crate) fn event_with_duration(&self, location: EventLocation, body: EventBody, start: Time) -> ReportedEvent {
        let mut event = self.event(location, body);
        event.duration_ms = Some(elapsed_millis(event.timestamp, start));
        event
    }

    /// Iteration of the parent execution, for `iter.parent`.
    pub(crate) fn parent_iter(&self) -> Option<LazyValue> {
        self.execution_context
            .parent_iter
            .as_ref()
            .map(|raw: &RawJson| LazyValue::from_raw(raw.clone()))
    }
}

/// Whether `ctx` writes are applied at the end of the loop.
pub(crate) fn is_parallel(step: &Step) -> bool {
    step.loop_
        .as_ref()
        .is_some_and(|loop_| loop_.mode == LoopMode::Parallel)
}

/// Builds an event of this worker. The server assigns its ID and sequence number.
pub(crate) fn worker_event(
    shared: &WorkerShared,
    execution: ExecutionId,
    location: EventLocation,
    body: EventBody,
) -> ReportedEvent {
    ReportedEvent {
        source: EventSource::Worker,
        worker_id: Some(shared.config.worker.clone()),
        ..ReportedEvent::new(None, execution, shared.config.clock.now(), location, body)
    }
}

/// Returns the whole milliseconds between two times.
pub(crate) fn elapsed_millis(now: Time, start: Time) -> u64 {
    u64::try_from(now.since(start).as_millis()).unwrap_or(u64::MAX)
}
