//! Context of a claimed command: everything that its pipelines share.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use model::command::Command;
use model::event::{At, Body, Event, Source};
use model::id::{EventId, ExecutionId, Name, Seq};
use model::outcome::TaskError;
use model::playbook::{LoopMode, Step};
use model::raw::Raw;
use model::template::{Data, Iter, Loaded, Scope};
use model::time::Time;
use tempfile::TempDir;

use crate::held::Held;
use crate::lease::{Gone, Lease};
use crate::playbooks::{Prepared, StepPlan};
use crate::scratch;
use crate::secrets::RunSecrets;
use crate::worker::Shared;

/// A claimed command with everything that its pipelines share.
pub(crate) struct Hand {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) command: Command,
    pub(crate) context: Arc<wire::Context>,
    pub(crate) prepared: Arc<Prepared>,
    /// Values loaded for any pipeline of the command.
    loaded: Mutex<Held>,
    /// Files for its tasks; the directory is created on first use.
    scratch: Mutex<Scratch>,
    /// Tasks for which a `select` warning was logged.
    warned: Mutex<BTreeSet<Name>>,
    /// Secrets of the execution, set when the first one is known; kept until the command ends.
    pub(crate) secrets: OnceLock<Arc<RunSecrets>>,
}

/// Directory of numbered files.
#[derive(Default)]
struct Scratch {
    folder: Option<TempDir>,
    files: u32,
}

/// Why an operation ended without a result.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It failed: the task or step fails with this error.
    Failed(Box<TaskError>),
    /// The worker was stopped before the operation was done.
    Interrupted,
}

impl From<TaskError> for Trouble {
    fn from(error: TaskError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl From<Box<TaskError>> for Trouble {
    fn from(error: Box<TaskError>) -> Self {
        Self::Failed(error)
    }
}

impl From<Gone> for Trouble {
    fn from(Gone: Gone) -> Self {
        Self::Interrupted
    }
}

impl Hand {
    pub(crate) fn new(
        shared: Arc<Shared>,
        lease: Arc<Lease>,
        prepared: Arc<Prepared>,
        command: Command,
        context: Arc<wire::Context>,
    ) -> Self {
        Self {
            shared,
            lease,
            command,
            context,
            prepared,
            loaded: Mutex::default(),
            scratch: Mutex::default(),
            warned: Mutex::default(),
            secrets: OnceLock::new(),
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.command.id.execution
    }

    /// Returns the step that the command runs, and its plan.
    pub(crate) fn step(&self) -> Option<(&Step, &StepPlan)> {
        self.prepared.step(&self.command.run.step)
    }

    /// Location of the step run in events.
    pub(crate) fn at(&self) -> At {
        At::step_run(&self.command.run)
    }

    pub(crate) fn now(&self) -> Time {
        self.shared.config.clock.now()
    }

    /// Template scope that every pipeline of the command starts with.
    pub(crate) fn scope(&self) -> Scope {
        let mut scope = self.context.scope();
        if let Some(args) = &self.command.args {
            scope.args = Data::lazy(args.clone());
        }
        scope.env.clone_from(&self.shared.env);
        // Steps without a loop see the iteration in which their playbook was started.
        scope.iter = self.parent_iter().map(|parent| Iter {
            parent: Some(parent),
            ..Iter::default()
        });
        scope.loaded = self.loaded();
        scope
    }

    /// Returns the values loaded so far.
    pub(crate) fn loaded(&self) -> Arc<Loaded> {
        self.loaded
            .lock()
            .expect("the lock is not poisoned")
            .loaded()
    }

    /// Adds loaded values, for every pipeline of the command.
    pub(crate) fn remember(&self, more: Loaded, sizes: Vec<(String, u64)>) -> Arc<Loaded> {
        let mut held = self.loaded.lock().expect("the lock is not poisoned");
        held.add(more, sizes);
        held.loaded()
    }

    /// Whether no `select` warning was logged for this task yet.
    pub(crate) fn is_first_warning(&self, task: &Name) -> bool {
        let mut warned = self.warned.lock().expect("the lock is not poisoned");
        warned.insert(task.clone())
    }

    /// Returns the path of a new file of this command.
    pub(crate) fn scratch_file(&self) -> Result<PathBuf, Box<TaskError>> {
        let mut scratch = self.scratch.lock().expect("the lock is not poisoned");
        let folder = match scratch.folder.take() {
            Some(folder) => folder,
            None => scratch::folder(&self.shared.config.scratch_dir)?,
        };
        scratch.files += 1;
        let path = folder.path().join(format!("{}.json", scratch.files));
        scratch.folder = Some(folder);
        Ok(path)
    }

    /// Builds an event with the current time.
    pub(crate) fn event(&self, at: At, body: Body) -> Event {
        stamped(&self.shared, self.execution(), at, body)
    }

    /// Builds an event with the duration since `begun`.
    pub(crate) fn ending(&self, at: At, body: Body, begun: Time) -> Event {
        let mut event = self.event(at, body);
        event.duration_ms = Some(millis(event.timestamp, begun));
        event
    }

    /// Iteration of the parent execution, for `iter.parent`.
    pub(crate) fn parent_iter(&self) -> Option<Data> {
        self.context
            .parent_iter
            .as_ref()
            .map(|raw: &Raw| Data::lazy(raw.clone()))
    }
}

/// Whether `ctx` writes are applied at the end of the loop.
pub(crate) fn is_parallel(step: &Step) -> bool {
    step.loop_
        .as_ref()
        .is_some_and(|loop_| loop_.mode == LoopMode::Parallel)
}

/// Builds an event of this worker. The server assigns its ID and sequence number.
pub(crate) fn stamped(shared: &Shared, execution: ExecutionId, at: At, body: Body) -> Event {
    let now = shared.config.clock.now();
    Event {
        event_id: EventId(0),
        execution_id: execution,
        seq: Seq(0),
        cause_seq: None,
        timestamp: now,
        recorded_at: now,
        source: Source::Worker,
        at,
        duration_ms: None,
        worker_id: Some(shared.config.worker.clone()),
        trace_id: None,
        meta: None,
        body,
    }
}

/// Returns the whole milliseconds between two times.
pub(crate) fn millis(now: Time, begun: Time) -> u64 {
    u64::try_from(now.since(begun).as_millis()).unwrap_or(u64::MAX)
}
